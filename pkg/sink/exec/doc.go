// Package exec is the sink that runs a program of the user, which reads CloudEvents JSON lines
// from its standard input and acknowledges them. Package deliver calls the sink, and has the
// pauses between attempts and the dead letters. docs/sinks/exec.md is the contract with programs.
//
// With ack: ids, a process reads events until its input ends, and prints the ids of handled ones.
// With ack: exit, a process gets one batch, and its exit code 0 acknowledges it. An end of a process
// concerns its first event without an acknowledgement, and none if it has read nothing of what it got
// last. If several events may be at fault, the sink sends them one by one. [programs.judge] has the
// exit codes.
//
// Each process leads a process group, which is killed when the process has ended or does not
// acknowledge in time. On Linux, the kernel kills the process also when informd is killed. The
// environment has only PATH, HOME and what the config lists, and so no secret of informd.
//
// Memory is bounded: a sink reads 16 KiB of a line at most, and the standard output only while events
// wait and at the end, so that a program that prints without end waits. The log takes 10 lines per second.
package exec
