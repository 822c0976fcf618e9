"""What a run came to and how, as a page that opens from disk: figures, tables, and the page."""

from pdnas.report.page import REPORT, write_report
from pdnas.report.reading import Run, is_at_work, read_run

__all__ = ["REPORT", "Run", "is_at_work", "read_run", "write_report"]
