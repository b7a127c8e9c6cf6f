#!/usr/bin/env python3
import json
import sys
import time

case_id = sys.argv[1]
time.sleep({"c1": 0.9, "c2": 0.5, "c3": 0.1}[case_id])
sys.stdout.write(json.dumps({"answer": case_id.upper()}) + "\n")
