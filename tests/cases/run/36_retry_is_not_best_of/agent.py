#!/usr/bin/env python3
import json
import pathlib
import sys

case_id, state = sys.argv[1], pathlib.Path(sys.argv[2])
state.mkdir(exist_ok=True)
file = state / case_id
before = int(file.read_text()) if file.exists() else 0
file.write_text(str(before + 1))
if case_id == "infra" and before == 0:
    sys.exit(75)
sys.stdout.write(json.dumps({"answer": "good" if before else "bad"}) + "\n")
