"""Candidates, estimated and trained."""

from pdnas.architecture import Architecture, BlockSpec
from pdnas.report.candidates import draw_candidates, read_candidates
from pdnas.runs import Trial

ARCHITECTURES = [
    Architecture(blocks=(BlockSpec(attention=name),)) for name in ("gcn", "gat", "const")
]


def trial(number: int, shared: float | None) -> Trial:
    return Trial(
        architecture=ARCHITECTURES[number],
        hidden=8,
        seed=0,
        shared_val=shared,
        val=0.5 + number / 10,
        epoch=3,
        epochs=5,
        rungs=(),
        seconds=1.0,
    )


def replace_seed(one: Trial) -> Trial:
    return one.model_copy(update={"seed": 1})


def test_the_network_found_stands_out() -> None:
    trials = [trial(0, 0.4), trial(1, 0.6), trial(2, None)]
    rated = read_candidates(trials, ARCHITECTURES[1], 8)

    figure = draw_candidates(rated, 0.75)

    assert [one.chosen for one in rated] == [False, True, False]
    others, found, beside = figure.plot["data"]
    assert (others["x"], others["y"]) == ([40.0], [50.0])
    assert (beside["xaxis"], beside["y"], beside["text"]) == ("x2", [70.0], ["2"])
    assert not beside["showlegend"]
    assert (found["x"], found["y"], found["text"]) == ([60.0], [60.0], ["1"])
    assert others["marker"]["symbol"] != found["marker"]["symbol"]
    assert "rank correlation of the two is 0.75" in figure.caption
    assert "1 training without an estimate is at the right edge" in figure.caption
    assert figure.table is not None
    assert [row[0] for row in figure.table.rows] == ["0", "1 (found)", "2"]
    assert str(ARCHITECTURES[1]) in found["hovertext"][0]


def test_a_network_that_was_not_estimated_stands_out_at_the_edge() -> None:
    rated = read_candidates([trial(0, 0.4), trial(1, None)], ARCHITECTURES[1], 8)

    figure = draw_candidates(rated, None)

    _, found = figure.plot["data"]
    assert (found["name"], found["xaxis"]) == ("the network found", "x2")
    assert figure.plot["layout"]["xaxis2"]["ticktext"] == ["none"]


def test_designs_among_the_candidates_have_their_names() -> None:
    designs = {ARCHITECTURES[1]: "gat"}

    figure = draw_candidates(
        read_candidates([trial(0, 0.4), trial(1, None)], None, 8, designs=designs), None
    )

    assert "Hand-designed networks were candidates too: gat." in figure.caption
    assert figure.table is not None
    assert figure.table.rows[1][-1] == f"gat: {ARCHITECTURES[1]}"


def test_trainings_that_fell_behind_are_hollow() -> None:
    behind = trial(0, 0.4).model_copy(update={"rungs": (0.3,)})

    figure = draw_candidates(read_candidates([behind, trial(1, 0.5)], None, 8, epochs=18), None)

    assert figure.plot["data"][0]["marker"]["symbol"] == ["circle-open", "circle"]
    assert "1 that is hollow ended early" in figure.caption
    assert figure.table is not None
    assert [row[4] for row in figure.table.rows] == ["5, ended early", "5"]


def test_several_trainings_of_the_network_found_are_explained() -> None:
    again = replace_seed(trial(1, 0.6))
    rated = read_candidates([trial(0, 0.4), trial(1, 0.6), again], ARCHITECTURES[1], 8)

    figure = draw_candidates(rated, None)

    assert "The 2 stars are one network, the one found" in figure.caption
    assert figure.table is not None
    assert [row[1] for row in figure.table.rows] == ["1", "1", "2"]


def test_points_that_coincide_share_a_label() -> None:
    rated = read_candidates([trial(0, 0.4), trial(0, 0.4), trial(1, 0.9)], None, 8)

    (others,) = draw_candidates(rated, None).plot["data"]

    assert others["text"] == ["0, 1", "", "2"]


def test_a_label_has_a_few_numbers_at_most() -> None:
    rated = read_candidates([trial(0, 0.4) for _ in range(9)], None, 8)

    (others,) = draw_candidates(rated, None).plot["data"]

    assert others["text"][0] == "0, 1, 2, 3, …"


def test_without_estimates_the_trainings_are_shown_in_their_order() -> None:
    rated = read_candidates([trial(0, None), trial(1, None)], None, 0)

    figure = draw_candidates(rated, None)

    assert figure.plot["data"][0]["x"] == [0, 1]
    assert "nothing was estimated" in figure.caption


def test_too_few_for_a_correlation_is_said() -> None:
    rated = read_candidates([trial(0, 0.1)], None, 0)

    assert "too few" in draw_candidates(rated, None).caption
