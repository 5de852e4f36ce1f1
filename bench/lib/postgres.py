"""A PostgreSQL server of a benchmark, in a directory of its own, and what it says of its work."""

import subprocess
import time
from pathlib import Path

from .measure import Failed

SCRIPT = Path(__file__).resolve().parent.parent.parent / "tests" / "postgres-server"
START_TIMEOUT_S = 60


class Server:
    """Syncs like a server that is used, and ends with this process."""

    def __init__(self, directory: Path):
        self.directory = directory
        options = ["-c", "fsync=on", "-c", "max_wal_size=4GB"]
        self.process = subprocess.Popen([SCRIPT, directory, *options], stdin=subprocess.PIPE)
        begun = time.monotonic()
        while not (directory / "ready").exists():
            if self.process.poll() is not None or time.monotonic() - begun > START_TIMEOUT_S:
                raise Failed(
                    f"PostgreSQL does not start in {directory}; is it installed? Started by root, it runs as user `postgres`, who must be able "
                    "to enter that directory: choose another with --dir"
                )
            time.sleep(0.05)

    def url(self, run: str | None = None) -> str:
        named = f"&run={run}" if run else ""
        return f"postgres://strata@/postgres?host={self.directory}{named}"

    def sql(self, statements: str) -> str:
        """Carry out statements, and return what they print."""
        words = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", statements, self.url()]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def number(self, query: str) -> float:
        return float(self.sql(query))

    def transactions(self) -> float:
        """Return how many transactions were committed so far."""
        # A process adds its own when it has nothing else to do.
        time.sleep(1.5)
        self.sql("SELECT pg_stat_force_next_flush()")
        return self.number("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'")

    def fenced_append_us(self, payload: int, seconds: int) -> float:
        """Return the mean time of an append of that many bytes with the check of an epoch, by PostgreSQL's own client."""
        self.sql(
            "CREATE TABLE IF NOT EXISTS bare_run (id bigint PRIMARY KEY, epoch bigint NOT NULL);"
            "CREATE TABLE IF NOT EXISTS bare_event (n bigserial PRIMARY KEY, body bytea NOT NULL);"
            "ALTER TABLE bare_event ALTER body SET STORAGE EXTERNAL;"
            "INSERT INTO bare_run VALUES (1, 1) ON CONFLICT DO NOTHING"
        )
        script = self.directory.parent / "append.sql"
        body = "\\x" + "ab" * payload
        script.write_text(
            "WITH f AS (SELECT FROM bare_run WHERE id = 1 AND epoch = 1 FOR SHARE) "
            f"INSERT INTO bare_event (body) SELECT '{body}'::bytea FROM f;\n"
        )
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))
        if not programs:
            raise Failed("there is no `pgbench`")
        words = [programs[-1], "-n", "-M", "prepared", "-c", "1", "-T", seconds, "-f", script, "-h", self.directory, "-U", "strata", "postgres"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if line.startswith("latency average"):
                return float(line.split("=")[1].split()[0]) * 1000
        raise Failed(f"pgbench: {done.stderr.strip()[-160:]}")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
