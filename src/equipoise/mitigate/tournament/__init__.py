"""Every remedy at several strengths, judged on the same held-out subjects: what it repairs, moves and costs.

Subjects are parted in three: remedies are fitted on the first, the strength of each is chosen on the second, and the
table shows the third. :func:`tournament` does it all into a folder.
"""

from equipoise.mitigate.tournament.running import Tournament, tournament
from equipoise.mitigate.tournament.settings import TournamentSettings

__all__ = ["Tournament", "TournamentSettings", "tournament"]
