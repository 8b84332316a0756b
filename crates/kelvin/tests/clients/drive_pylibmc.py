"""Drives pylibmc, and libmemcached below it, in the text or the binary protocol:
`drive_pylibmc.py [binary] HOST:PORT | /PATH/OF/SOCKET`."""

import sys
import time

import pylibmc

from checks import Checks, run

# In microseconds, as libmemcached counts.
TIMEOUT_US = 20_000_000


class Pylibmc(Checks):
    def __init__(self, address, binary):
        super().__init__()
        self.address = address
        self.binary = binary
        if binary:
            # Times have no sign there: this one is in 1970.
            self.past = 60 * 60 * 24 * 30 + 1
        self.client = self.connect({})

    def connect(self, behaviors):
        common = {"cas": True, "receive_timeout": TIMEOUT_US, "send_timeout": TIMEOUT_US}
        client = pylibmc.Client([self.address], binary=self.binary, behaviors=common | behaviors)
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

    def check_replace(self):
        if not self.binary:
            return super().check_replace()
        # The status for it is that of a key that is not there.
        assert self.missing(lambda: self.client.replace("replace", b"1"))
        self.client.set("replace", b"1")
        assert self.client.replace("replace", b"2")
        assert self.client.get("replace") == b"2"

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
    run(Pylibmc(sys.argv[-1], binary=sys.argv[1] == "binary"))
