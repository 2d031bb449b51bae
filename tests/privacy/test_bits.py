"""Bit sources: independence across runs, forks and threads; test bits never pass for real ones (N8)."""

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from psephos import Account, Ledger, Profile, private_consensus
from psephos.errors import InsecureBitsError, ParameterError
from psephos.privacy import InsecureBits, SystemBits

PROFILE = Profile.from_rankings({("a", "b", "c"): 30, ("c", "b", "a"): 10}, items=["a", "b", "c"])


@pytest.fixture(params=[SystemBits, lambda: InsecureBits(seed=3)], ids=["system", "insecure"])
def source(request):
    return request.param()


def test_bits_lie_in_range_and_use_all_of_it(source):
    for n in (1, 2, 7, 8, 9, 63, 64, 65, 200):
        draws = [source.bits(n) for _ in range(400)]
        assert all(0 <= x < 2**n for x in draws)
        assert all(any((x >> i) & 1 for x in draws) for i in range(n))  # misses with probability below n 2**-400
        assert not all((x >> (n - 1)) & 1 for x in draws)
    assert source.bits(0) == 0


def test_bits_are_fair(source):
    n = 200_000
    ones = sum(int(x).bit_count() for x in source.words(n // 64))
    total = (n // 64) * 64
    assert abs(ones - total / 2) < 4.9 * (total / 4) ** 0.5  # false alarm 1e-6


def test_words_are_64_bits(source):
    words = source.words(1000)
    assert words.dtype == np.uint64
    assert np.bitwise_or.reduce(words) == np.uint64(2**64 - 1)


FORKS = """
import multiprocessing
from psephos.privacy import SystemBits

def draw(queue):
    queue.put(SystemBits().bits(128))

context = multiprocessing.get_context("fork")
queue = context.SimpleQueue()
workers = [context.Process(target=draw, args=(queue,)) for _ in range(4)]
for worker in workers:
    worker.start()
draws = {queue.get() for _ in workers}
for worker in workers:
    worker.join()
print(len(draws | {SystemBits().bits(128)}))
"""


def test_n8_forked_workers_differ():
    """In a process of its own: a fork of one that runs threads, as that of the tests may, can hang."""
    assert subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True).stdout == "5\n"


def test_n8_threads_differ():
    bits = SystemBits()
    draws = []
    threads = [threading.Thread(target=lambda: draws.append(bits.bits(128))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(draws)) == 8


def test_n8_runs_without_a_seed_differ():
    tables = {private_consensus(PROFILE, epsilon="0.01").value.estimate.margins.tobytes() for _ in range(3)}
    assert len(tables) == 3


def test_n8_items_of_one_release_get_independent_noise():
    flat = Profile.from_rankings({("a", "b", "c"): 1, ("c", "b", "a"): 1}, items=["a", "b", "c"])
    noise = private_consensus(flat, epsilon="1e-9").value.estimate.margins
    assert len({int(noise[0, 1]), int(noise[0, 2]), int(noise[1, 2])}) == 3


def test_n8_seeded_output_is_stamped_and_the_ledger_refuses_it(tmp_path):
    release = private_consensus(PROFILE, epsilon=1, bits=InsecureBits(seed=0))
    assert release.secure is False
    assert private_consensus(PROFILE, epsilon=1).secure is True
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_budget("poll", epsilon=1)
    with pytest.raises(InsecureBitsError):
        private_consensus(PROFILE, epsilon="0.5", bits=InsecureBits(seed=0), account=Account(ledger, "poll"))
    assert ledger.remaining("poll") == (1, 0)


def test_n8_seed_is_in_no_text_and_no_pickle():
    bits = InsecureBits(seed=987654321)
    assert "987654321" not in repr(bits) + str(bits)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(bits)


class _Claims(InsecureBits):
    secure = True


class _AllOnes(SystemBits):
    def words(self, n):
        return np.full(n, 2**64 - 1, dtype=np.uint64)


class _OneWord:
    secure = True

    def bits(self, _n):
        return 0

    def words(self, _n):
        return np.full(1, 2**63, dtype=np.uint64)


def test_only_system_bits_themselves_count_as_secure(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_budget("poll", epsilon=1)
    for bits in (_Claims(seed=1), _AllOnes()):
        assert private_consensus(PROFILE, epsilon=1, bits=bits).secure is False
        with pytest.raises(InsecureBitsError):
            private_consensus(PROFILE, epsilon="0.1", bits=bits, account=Account(ledger, "poll"))
    with pytest.raises(RuntimeError, match="noise of shape"):
        private_consensus(PROFILE, epsilon=1, bits=_OneWord())
    with pytest.raises(ParameterError, match="bits must be"):
        private_consensus(PROFILE, epsilon="0.1", bits=None, account=Account(ledger, "poll"))
    with pytest.raises(ParameterError, match="ledger must be"):
        Account("ledger.db", "poll")
    assert ledger.remaining("poll") == (1, 0)


def test_insecure_bits_need_a_seed():
    with pytest.raises(TypeError):
        InsecureBits()
