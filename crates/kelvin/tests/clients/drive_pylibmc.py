"""Drives pylibmc, and libmemcached below it, in the text protocol:
`drive_pylibmc.py HOST:PORT | /PATH/OF/SOCKET`."""

import sys
import time

import pylibmc

from checks import Checks, run

# In microseconds, as libmemcached counts.
TIMEOUT_US = 20_000_000


class Pylibmc(Checks):
    def __init__(self, address):
        super().__init__()
        self.address = address
        self.client = self.connect({})

    def connect(self, behaviors):
        common = {"cas": True, "receive_timeout": TIMEOUT_US, "send_timeout": TIMEOUT_US}
        client = pylibmc.Client([self.address], binary=False, behaviors=common | behaviors)
        return client

    def missing(self, call):
        try:
            call()
        except pylibmc.NotFound:
            return True
        return False

    def refused(self, call):
        try:
            call()
        except pylibmc.TooBig:
            return True
        return False

    def check_noreply(self):
        quiet = self.connect({"_noreply": True})
        quiet.set("noreply", b"5")
        quiet.append("noreply", b"0")
        quiet.disconnect_all()
        assert self.settled("noreply") == b"50"
        quiet.delete("noreply")
        quiet.set("noreply2", b"1")
        quiet.disconnect_all()
        assert self.settled("noreply2") == b"1"
        assert self.client.get("noreply") is None

    def settled(self, key):
        """The value of a key once what another connection sent has arrived."""
        for _ in range(100):
            value = self.client.get(key)
            if value is not None and not (key == "noreply" and value == b"5"):
                return value
            time.sleep(0.02)
        return None


if __name__ == "__main__":
    run(Pylibmc(sys.argv[1]))
