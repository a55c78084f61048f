"""The web server, which Ctrl-C ends at once, whatever its clients do."""

import asyncio
import socket

import uvicorn

_GRACE = 1.0  # seconds in which answers that are under way are sent


class Server(uvicorn.Server):
    """uvicorn, but for clients that never send a request to its end or take no answer."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the connections: half-open ones now, the others when they had their answers."""
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if getattr(cycle, "more_body", False):
                connection.transport.close()
        asyncio.get_running_loop().call_later(_GRACE, self._abort)
        await super().shutdown(sockets)

    def _abort(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
