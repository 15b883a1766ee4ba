package sqlitestore

// query numbers the prepared statements of a connection.
type query int

const (
	begin query = iota
	commit
	rollback
	readMeta
	writeMeta
	byHash
	byID
	hashTaken
	insertRecord
	updateRecord
	deleteRecord
	insertResult
	deleteResult
	listAll
	listIndexed
	listYoung
	allIndexed
	young
	setDue
	dueRecords
	expiring
	everything // for planted bugs only
	wordByID
	wordByData
	insertWord
	timelineOf
	insertEntry
	deleteTimeline
	readSettings
	writeSetting
	deleteSetting
	numQueries
)

const (
	recordColumns = ` r.id, r.hash, r.due, r.expires, r.result, r.data `
	resultJoin    = ` LEFT JOIN results s ON s.id = r.result `
)

// Every reading statement has the state of meta in its first column, so that a record and the store's position are of one snapshot.
var queries = [numQueries]string{
	begin:          `BEGIN IMMEDIATE`,
	commit:         `COMMIT`,
	rollback:       `ROLLBACK`,
	readMeta:       `SELECT state FROM meta WHERE one = 1`,
	writeMeta:      `UPDATE meta SET state = ?1 WHERE one = 1`,
	byHash:         `SELECT m.state,` + recordColumns + `, s.head, s.body FROM meta m LEFT JOIN records r ON r.hash = ?1` + resultJoin + `WHERE m.one = 1`,
	byID:           `SELECT m.state,` + recordColumns + `, s.head, s.body FROM meta m LEFT JOIN records r ON r.id = ?1` + resultJoin + `WHERE m.one = 1`,
	hashTaken:      `SELECT 1 FROM records WHERE hash = ?1`,
	insertRecord:   `INSERT INTO records (id, hash, data) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING`,
	updateRecord:   `UPDATE records SET due = ?2, expires = ?3, result = ?4, data = ?5 WHERE id = ?1`,
	deleteRecord:   `DELETE FROM records WHERE id = ?1`,
	insertResult:   `INSERT INTO results (id, head, body) VALUES (?1, ?2, ?3)`,
	deleteResult:   `DELETE FROM results WHERE id = ?1`,
	listAll:        `SELECT m.state,` + recordColumns + `, s.head FROM meta m CROSS JOIN records r` + resultJoin + `WHERE m.one = 1 AND r.id > ?1 ORDER BY r.id`,
	listIndexed:    `SELECT m.state,` + recordColumns + `, NULL FROM meta m CROSS JOIN records r INDEXED BY records_due WHERE m.one = 1 AND r.due IS NOT NULL AND r.id > ?1 AND r.id <= ?2 ORDER BY r.id`,
	listYoung:      `SELECT m.state,` + recordColumns + `, NULL FROM meta m CROSS JOIN records r WHERE m.one = 1 AND r.id > ?1 AND r.expires IS NULL ORDER BY r.id`,
	allIndexed:     `SELECT m.state,` + recordColumns + `FROM meta m CROSS JOIN records r INDEXED BY records_due WHERE m.one = 1 AND r.due >= ?1`,
	young:          `SELECT m.state,` + recordColumns + `FROM meta m CROSS JOIN records r WHERE m.one = 1 AND r.id > ?1 AND r.due IS NULL AND r.expires IS NULL ORDER BY r.id`,
	setDue:         `UPDATE records SET due = ?2 WHERE id = ?1`,
	dueRecords:     `SELECT m.state,` + recordColumns + `FROM meta m LEFT JOIN records r INDEXED BY records_due ON r.due <= ?1 WHERE m.one = 1 ORDER BY r.due`,
	expiring:       `SELECT m.state,` + recordColumns + `FROM meta m LEFT JOIN records r INDEXED BY records_expires ON r.expires BETWEEN ?1 AND ?2 WHERE m.one = 1 ORDER BY r.expires`,
	everything:     `SELECT m.state,` + recordColumns + `FROM meta m LEFT JOIN records r ON r.id >= ?1 * ?2 WHERE m.one = 1 ORDER BY r.id`,
	wordByID:       `SELECT data, sum FROM words WHERE id = ?1`,
	wordByData:     `SELECT id FROM words WHERE data = ?1`,
	insertWord:     `INSERT INTO words (id, data, sum) VALUES (?1, ?2, ?3)`,
	timelineOf:     `SELECT id, data FROM timeline WHERE record = ?1 ORDER BY id`,
	insertEntry:    `INSERT INTO timeline (id, record, data) VALUES (?1, ?2, ?3)`,
	deleteTimeline: `DELETE FROM timeline WHERE record = ?1`,
	readSettings:   `SELECT m.state, s.name, s.tenant, s.operation, s.value, s.until FROM meta m LEFT JOIN settings s WHERE m.one = 1 ORDER BY s.name, s.tenant, s.operation`,
	writeSetting:   `INSERT INTO settings (name, tenant, operation, value, until) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET value = ?4, until = ?5`,
	deleteSetting:  `DELETE FROM settings WHERE name = ?1 AND tenant = ?2 AND operation = ?3`,
}
