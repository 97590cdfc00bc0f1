CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER AS (start + 5), eventType DEFAULT 59, text, globalTid DEFAULT 1);
INSERT INTO NVTX_EVENTS(start, text) VALUES(3, 'aten::mm, seq = -7, op_id = 99999999999999999999'), (4, 'ProfilerStep#1');
CREATE VIEW StringIds AS WITH RECURSIVE endless(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM endless) SELECT id, id AS value FROM endless;
