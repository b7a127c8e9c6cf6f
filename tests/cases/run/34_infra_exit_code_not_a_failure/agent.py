#!/usr/bin/env python3
import json
import sys

case_id = sys.argv[1]
if case_id == "c3":
    sys.stderr.write("401 from provider\n")
    sys.exit(75)
sys.stdout.write(json.dumps({"answer": "4" if case_id == "c1" else "5"}) + "\n")
