"""The page: one file that needs nothing else."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RunError
from pdnas.job import Cell, Plan, Progress
from pdnas.report import write_report
from pdnas.report.page import kept_whole, render
from pdnas.report.reading import Run, read_run
from pdnas.search import Candidate

HOSTILE = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def elements(text: str) -> Elements:
    parser = Elements()
    parser.feed(text)
    return parser


def plots(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="plots">(.*?)</script>', text, re.S)
    assert found is not None
    values: dict[str, Any] = json.loads(found[1])
    return values


@pytest.fixture(scope="session")
def page(made: dict[str, Path]) -> str:
    return render([read_run(made["grid"])], {made["grid"]: [("Again", "pdnas search 'a b'")]})


def test_it_needs_nothing_from_elsewhere(page: str) -> None:
    for tag, attributes in elements(page).tags:
        assert tag not in ("iframe", "object", "embed")
        source = attributes.get("src") or attributes.get("href") or "#"
        assert source.startswith(("#", "data:")), (tag, source)


def test_it_is_smaller_than_six_megabytes(page: str) -> None:
    assert len(page.encode()) < 6_000_000


def test_names_of_users_stay_text(page: str) -> None:
    assert HOSTILE not in page.replace("\\u003c", "<").split('id="plots">')[0]
    scripts = [attributes for tag, attributes in elements(page).tags if tag == "script"]
    assert len(scripts) == 3
    assert HOSTILE in elements(page).text


def test_every_plot_has_a_place_and_every_place_a_plot(page: str) -> None:
    places = [a["data-plot"] for _, a in elements(page).tags if "data-plot" in a]

    assert len(set(places)) == len(places)
    assert set(places) == set(plots(page))
    assert {"search0-losses", "search1-gates", "candidates", "trainings", "confusion"} <= set(
        places
    )


def test_ids_are_unique_and_references_lead_somewhere(page: str) -> None:
    tags = elements(page).tags
    ids = [a["id"] for _, a in tags if "id" in a]

    assert len(set(ids)) == len(ids)
    for _, attributes in tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name, ids[0]) in ids
        target = attributes.get("href") or ""
        assert not target.startswith("#") or target[1:] in ids


def test_the_search_that_found_the_network_comes_first(made: dict[str, Path], page: str) -> None:
    result = read_run(made["grid"]).result
    assert result is not None

    titles = re.findall(r"<h3>2 blocks, hidden size (\d+)", page)

    assert titles[0] == str(result.hidden)
    assert set(titles) == {"4", "8"}


def test_commands_can_be_copied(page: str) -> None:
    assert "pdnas search &#39;a b&#39;" in page


def test_every_run_of_several_has_its_commands(made: dict[str, Path]) -> None:
    paths = [made["grid"], made["trained"]]
    runs = [read_run(path) for path in paths]
    told = {
        path: [("Again", f"pdnas x {path}"), ("This", f"pdnas report {path}")] for path in paths
    }

    text = render(runs, told)

    assert f"<code>pdnas report {paths[0]} {paths[1]}</code>" in text
    for path in paths:
        assert f"<summary><h3>{path.name}</h3></summary>" in text
        assert f"<code>pdnas x {path}</code>" in text
        assert f"<code>pdnas report {path}</code>" in text
    assert text.count("The page of this run alone") == 2
    ids = [attributes["id"] for _, attributes in elements(text).tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert 'id="commands"' not in render(runs, {})


def test_a_finished_run_does_not_load_itself_again(page: str) -> None:
    assert 'http-equiv="refresh"' not in page


def test_an_unfinished_run_has_a_page_that_loads_itself_again_if_it_is_watched(
    unfinished: Path,
) -> None:
    text = render([read_run(unfinished)], {}, watched=True)

    assert 'http-equiv="refresh"' in text
    assert 'http-equiv="refresh"' not in render([read_run(unfinished)], {})
    assert "validation metric" not in text
    assert "is not finished" in text
    assert "search0-losses" in plots(text)
    assert "confusion" not in plots(text)


def progress_of(run: Run, **values: Any) -> Progress:
    """How far a search has come that has nothing but these."""
    assert run.result is not None
    plan = Plan(
        epochs=12,
        search_seconds=1.0,
        candidate_seconds=1.0,
        tune_seconds=0.0,
        final_seconds=1.0,
        epoch_seconds=0.1,
    )
    return Progress(split=run.result.split.sha256, plan=plan, **values)


def test_an_unfinished_search_has_the_correlation_of_its_candidates(made: dict[str, Path]) -> None:
    run = read_run(made["grid"])
    assert run.result is not None
    assert run.result.search is not None
    (first, *_) = run.result.search.trials
    trials = tuple(
        first.model_copy(update={"shared_val": rank / 10, "val": rank / 20}) for rank in range(5)
    )

    text = render([replace(run, result=None, progress=progress_of(run, trials=trials))], {})

    assert "The rank correlation of the two is 1.00" in text
    few = render([replace(run, result=None, progress=progress_of(run, trials=trials[:4]))], {})
    assert "There are too few for a rank correlation." in few


def test_an_unfinished_search_warns_of_what_is_finished(made: dict[str, Path]) -> None:
    run = read_run(made["grid"])
    cell = Cell(
        num_blocks=2,
        hidden=8,
        epochs=12,
        candidates=(
            Candidate(
                architecture=Architecture(blocks=(BlockSpec(), BlockSpec())), val=0.5, loss=1.0
            ),
        ),
        warnings=("It <collapsed>; try --preset default.",),
        seconds=1.0,
        refine_seconds=0.0,
    )

    text = render([replace(run, result=None, progress=progress_of(run, cells=(cell,)))], {})

    assert '<ul class="warnings" aria-label="Warnings">' in text
    assert "With 2 block(s) and hidden size 8: It &lt;collapsed&gt;" in text


def test_a_run_without_epochs_has_no_empty_plot(unfinished: Path) -> None:
    (unfinished / "history.jsonl").unlink()
    (unfinished / "checkpoint" / "pipeline.json").unlink(missing_ok=True)

    assert plots(render([read_run(unfinished)], {})) == {}


@pytest.mark.parametrize("name", ["rated", "darts", "trained"])
def test_every_kind_of_run_has_a_page(made: dict[str, Path], name: str) -> None:
    text = render([read_run(made[name])], {})

    assert "trainings" in plots(text)
    assert ("search0-gates" in plots(text)) == (name == "darts")


def test_older_runs_say_why_classes_are_missing(made: dict[str, Path], tmp_path: Path) -> None:
    for file in ("settings.json", "result.json", "history.jsonl"):
        (tmp_path / file).write_bytes((made["grid"] / file).read_bytes())

    text = render([read_run(tmp_path)], {})

    assert "keeps no predictions" in text
    assert "confusion" not in plots(text)


def test_several_runs_are_side_by_side(made: dict[str, Path], unfinished: Path) -> None:
    text = render([read_run(path) for path in (*made.values(), unfinished)], {})

    assert "5 runs, of which 4 are finished. By validation " in text
    assert "unfinished</dt><dd><strong>-</strong><span>tables: was stopped" in text
    assert 'http-equiv="refresh"' not in text
    assert text.count('class="drawing"') == 4
    assert "paired by split and seed" in text
    assert list(plots(text)) == ["curves"]


def test_runs_of_one_name_keep_their_own_rows_lines_and_tiles(made: dict[str, Path]) -> None:
    run = read_run(made["trained"])

    text = render([replace(run, path=Path(place)) for place in ("a/run", "b/run")], {})

    for name in ("a/run", "b/run"):
        assert f"<dt>{name}</dt>" in text
        assert f'<th scope="row">{name}</th>' in text
    lines = plots(text)["curves"]["data"]
    looks = {(line["name"], line["line"]["color"]) for line in lines if line["showlegend"]}
    assert [name for name, _ in sorted(looks)] == ["a/run", "b/run"]
    assert len({color for _, color in looks}) == 2


def test_runs_of_other_tasks_have_axes_of_their_own(made: dict[str, Path]) -> None:
    run = read_run(made["grid"])
    assert run.result is not None
    assert run.result.data is not None
    data = run.result.data.model_copy(update={"sha256": "0" * 64})
    other = replace(run, result=run.result.model_copy(update={"task": "other", "data": data}))

    text = render([run, other], {})

    assert list(plots(text)) == ["curves", "curves1"]
    assert "Validation during training on other" in text
    assert "They are of different tasks or metrics" in text


@pytest.mark.parametrize("place", [0, 1])
def test_a_run_that_goes_on_is_drawn_with_one_that_is_done(
    made: dict[str, Path], unfinished: Path, place: int
) -> None:
    going = read_run(made["rated"])
    assert going.result is not None
    going = replace(going, result=None, settings={"task_name": going.result.task})
    runs = [read_run(made["grid"])]
    runs.insert(place, going)

    (plot,) = plots(render(runs, {})).values()

    assert plot["layout"]["yaxis"]["title"]["text"] == "validation accuracy, %"


def test_flags_in_sentences_are_not_broken_and_text_stays_text() -> None:
    told = kept_whole("try --max-parameters <b> & more")

    assert told == 'try <span class="whole">--max-parameters</span> &lt;b&gt; &amp; more'


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("after 21 s of search", ["21 s"]),
        ("41.33 against 72.53 ± 0.50 %; 3 trainings", ["72.53 ± 0.50 %"]),
        ("(95 % interval over seeds 43.39 to 60.61)", ["95 %", "43.39 to 60.61"]),
        ("concat-mlp, leaky-relu", ["concat-mlp", "leaky-relu"]),
        ("validation accuracy, %", ["accuracy, %"]),
        ("2 steps", []),
    ],
)
def test_figures_with_units_and_ops_are_not_broken(text: str, whole: list[str]) -> None:
    assert re.findall('<span class="whole">(.*?)</span>', kept_whole(text)) == whole


def test_a_tuning_shows_its_trials(tuned: Path) -> None:
    text = render([read_run(tuned)], {})

    assert "tried-recipes" in plots(text)
    assert "Each trial of recipes" in text


def test_a_page_is_written_whole_or_not_at_all(made: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        write_report([made["rated"]], tmp_path / "nowhere" / "page.html")
    assert write_report([made["rated"]], tmp_path / "page.html").stat().st_size > 1_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
