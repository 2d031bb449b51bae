"""What people said: ballots, profiles, comparisons, and the files that hold them."""

from psephos.profile.ballot import Ballot
from psephos.profile.comparisons import Comparisons
from psephos.profile.csv_ballots import read_ballots_csv, write_ballots_csv
from psephos.profile.csv_comparisons import read_comparisons_csv, write_comparisons_csv
from psephos.profile.file_kind import FileKind, file_kind
from psephos.profile.preflib import read_preflib, write_preflib
from psephos.profile.profile import ItemsSource, Profile

__all__ = [
    "Ballot",
    "Comparisons",
    "FileKind",
    "ItemsSource",
    "Profile",
    "file_kind",
    "read_ballots_csv",
    "read_comparisons_csv",
    "read_preflib",
    "write_ballots_csv",
    "write_comparisons_csv",
    "write_preflib",
]
