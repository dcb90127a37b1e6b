-- The settings of a transaction. A connection that is cut off without a word must not hold the lock of the row for long.
-- The server ends by itself what takes as long as informd waits. A commit that is not on the disk is none.
SELECT set_config('idle_in_transaction_session_timeout', '30s', true), set_config('lock_timeout', '40s', true),
	set_config('statement_timeout', '5min', true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)
