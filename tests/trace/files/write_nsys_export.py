#!/usr/bin/env python3
"""Writes nsys-export.sqlite: a made-up export of Nsight Systems whose times can be added up by hand.

No nsys ran. Tables and columns are those of NVIDIA's "SQLite Export Schema Reference". Times are in milliseconds after
the session's start here, and in nanoseconds in the file.

    ms         0    10   12 14 15 18 20 21       40  50 52 54 55 58        90  100
    thread 1   [iteration                                                      ]
                     [forward                    ]   [backward              ]
                          [aten::addmm  ]  copy
    thread 2                                              [AddmmBackward0]
    GPU                                  20-30 gemm  31-33 copy   60-80 gemm   90-91 memset
"""
import os
import sqlite3
import sys

PID, GPU = 4242, 3
THREADS = {1: (1 << 48) | (PID << 24) | PID, 2: (1 << 48) | (PID << 24) | (PID + 1)}
MS = 1_000_000
NAMES = {1: "cudaLaunchKernel_v7000", 2: "cudaMemcpyAsync_v3020", 3: "gemm", 4: "void gemm<float, 4>(float*, int)",
         5: "AddmmBackward0, seq = 3, op_id = 12"}

path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "nsys-export.sqlite")
if os.path.exists(path):
    os.remove(path)
db = sqlite3.connect(path)
db.execute("PRAGMA page_size=512")
db.executescript("""
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT, numMultiprocessors INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
  copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
""")
db.executemany("INSERT INTO StringIds VALUES (?, ?)", NAMES.items())
db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", (1_700_000_000_000 * MS,))
db.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, 0, ?, '', 108)", (GPU, PID))


def call(start, end, thread, correlation, name):
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)",
               (start * MS, end * MS, THREADS[thread], correlation, name))


def work(table, start, end, correlation, *rest):
    values = (start * MS, end * MS, 0, 1, 7, correlation, THREADS[1] & ~0xFFFFFF, *rest)
    db.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} VALUES ({', '.join('?' * len(values))})", values)


def push_pop(start, end, thread, text, text_id=None):
    db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, ?, ?, NULL, ?, 0)",
               (start * MS, end * MS, text, THREADS[thread], text_id))


push_pop(0, 100, 1, "iteration")
push_pop(10, 40, 1, "forward")
push_pop(12, 18, 1, "aten::addmm, seq = 3, op_id = 9, sizes = [[2, 3]]")
push_pop(50, 90, 1, "backward")
push_pop(52, 58, 2, None, 5)
call(14, 15, 1, 1, 1)
call(20, 21, 1, 3, 2)
call(54, 55, 2, 2, 1)
work("KERNEL", 20, 30, 1, 4, 3, None)
work("KERNEL", 60, 80, 2, 4, 3, None)
work("MEMCPY", 31, 33, 3, 4096, 1)
work("MEMSET", 90, 91, 4, 4096)
db.commit()
db.execute("VACUUM")
db.close()
