"""Pictures of a report for the documentation: python tools/screenshots.py RUN [FOLDER].

Makes ``report-light.png``, ``report-dark.png`` and the same for a phone, in ``docs/images`` unless
told otherwise. The run of the documentation is that of ``pdnas search`` without any flag.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from pdnas.page import write_page

SIZES = {"report": (1400, 1000), "report-phone": (390, 844)}


def main(run: Path, folder: Path) -> None:
    """Write the pictures.

    Args:
        run: A finished search.
        folder: Where to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = write_page([run], run / "report.html").resolve()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                tab = browser.new_page(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if scheme == "dark" else "light",
                    reduced_motion="reduce",
                )
                tab.goto(page.as_uri())
                tab.wait_for_timeout(1000)
                path = folder / f"{name}-{scheme}.png"
                tab.screenshot(path=path)
                tab.close()
                print(f"{path}: {path.stat().st_size // 1024} KB")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) == 3 else "docs/images"))
