"""STUB until the real one is merged."""
import os
from dataclasses import dataclass

from mcpproxy.view.view import open_view


@dataclass(frozen=True)
class RecordingEntry:
    path: str; label: str; transport: str; client: str; server: str; started_at: str; started_ms: float; duration_ms: float|None; running: bool; ended: str; findings: int|None
class Folder:
    def __init__(self, path): self.path = path
    def recordings(self):
        names = [self.path] if os.path.isfile(self.path) else [os.path.join(self.path, n) for n in sorted(os.listdir(self.path)) if n.endswith(".jsonl")]
        out = []
        for p in names:
            try:
                with open_view(p) as v:
                    from datetime import datetime
                    s = v.sessions
                    t = datetime.fromisoformat(v.header.started_at.replace("Z","+00:00")).timestamp()*1000
                    out.append(RecordingEntry(p, v.header.label, v.transport, s[0].client if s else "", s[0].server if s else "", v.header.started_at, t, v.duration_ns/1e6, v.running, "ended", sum(g.count for g in v.findings_by_rule())))
            except Exception: pass
        return sorted(out, key=lambda e: e.started_ms)
    def runs(self): return []
