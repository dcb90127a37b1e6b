package kafka

import (
	"log/slog"
	"maps"
)

// place is where a broker has stored a record.
type place struct {
	topic     string
	partition int32
	offset    int64 // negative if the broker does not say
}

// partition identifies one in the cluster.
type partition struct {
	topic  string
	number int32
}

// noteOffsets compares the offsets of the records of a wave with those before. A partition
// whose offsets go back has lost records that its brokers had acknowledged: a replica that
// lacked them became the leader (an unclean leader election), or a disk was replaced.
func (s *producer) noteOffsets(w *wave) {
	ends, lost := map[partition]int64{}, map[string]bool{}
	for _, p := range w.parts {
		if p.err != nil || p.at.offset < 0 {
			continue
		}
		in := partition{p.at.topic, p.at.partition}
		if before, known := s.ends[in]; known && p.at.offset <= before {
			lost[in.topic] = true
		}
		if end, seen := ends[in]; !seen || p.at.offset > end {
			ends[in] = p.at.offset
		}
	}
	maps.Copy(s.ends, ends)
	for topic := range lost {
		if s.found != nil {
			s.logger.Warn("topic has lost acknowledged events (an unclean leader election?); it gets every object again",
				slog.String("topic", topic))
			s.found("")
			s.found(s.identity)
			continue
		}
		s.logger.Warn("topic has lost acknowledged events (an unclean leader election?); run informd resnapshot --sink",
			slog.String("topic", topic))
	}
}

// forgetOffsets is called for a topic that was created again.
func (s *producer) forgetOffsets(topic string) {
	for in := range s.ends {
		if in.topic == topic {
			delete(s.ends, in)
		}
	}
}
