"""Drives pymemcache: `drive_pymemcache.py HOST:PORT | /PATH/OF/SOCKET`."""

import sys

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheServerError

from checks import LEFT_OUT, Checks, run


class Pymemcache(Checks):
    def __init__(self, address):
        super().__init__()
        if not address.startswith("/"):
            host, port = address.rsplit(":", 1)
            address = (host, int(port))
        self.client = Client(address, default_noreply=False, timeout=20)

    def missing(self, call):
        return call() is None

    def refused(self, call):
        try:
            call()
        except MemcacheServerError as error:
            return b"object too large for cache" in error.args[0]
        return False

    def check_gat(self):
        # This release has no method for gat; its raw commands send one.
        self.client.set("gat", b"1", 1)
        reply = self.client.raw_command(b"gat 100 gat nothing", b"END\r\n")
        assert reply == b"VALUE gat 0 1\r\n1\r\n", reply

    def check_noreply(self):
        client = self.client
        assert client.set("noreply", b"5", noreply=True)
        client.add("noreply", b"6", noreply=True)
        client.replace("noreply", b"7", noreply=True)
        client.append("noreply", b"0", noreply=True)
        client.incr("noreply", 3, noreply=True)
        client.decr("noreply", 1, noreply=True)
        client.touch("noreply", 100, noreply=True)
        assert client.get("noreply") == b"72"
        client.delete("noreply", noreply=True)
        assert client.get("noreply") is None
        client.set_many({"n%d" % n: b"x" for n in range(1000)}, noreply=True)
        assert client.get("n999") == b"x"
        if "flush_all" in LEFT_OUT:
            return
        client.flush_all(noreply=True)
        assert client.get("n999") is None


if __name__ == "__main__":
    run(Pymemcache(sys.argv[1]))
