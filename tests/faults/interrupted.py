"""Makes one call that ends its process at the n-th change of a file: `interrupted.py N ROOT OPERATION REQUEST`.

Exits with 9 when it was ended, and with 0 when the call finished before its n-th change.
"""

import json
import os
import sys

CHANGES = ("mkdir", "rename", "replace", "write", "fsync", "fdatasync", "unlink", "rmdir")


def end_at(number):
    """Ends the process instead of making its `number`-th change."""
    left = [number]

    def counting(real):
        def changed(*arguments, **named):
            left[0] -= 1
            if left[0] <= 0:
                os._exit(9)
            return real(*arguments, **named)

        return changed

    for name in CHANGES:
        setattr(os, name, counting(getattr(os, name)))


def main():
    number, root, name, request = sys.argv[1:]
    from operations.invocation import invoke
    from operations.registry import all_operations

    operation = all_operations()[name]
    for step in range(1, int(number) + 1):
        child = os.fork()
        if child == 0:
            end_at(step)
            invoke(operation, {"project_path": f"{root}-{step}", **json.loads(request)})
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{step} {os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    main()
