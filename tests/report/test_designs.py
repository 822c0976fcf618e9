"""Networks that somebody designed before."""

from pdnas.models.baselines import BASELINES
from pdnas.report.designs import designs_of
from pdnas.space import EXTENDED, PAPER


def test_members_of_a_space_are_known_by_their_blocks() -> None:
    known = designs_of(EXTENDED)

    assert known[EXTENDED.plain(BASELINES["grand"].architecture)] == "grand"
    assert known[EXTENDED.plain(BASELINES["gcn"].architecture)] == "gcn"
    assert "gcn" not in designs_of(PAPER).values()
    assert designs_of(None) == {}
