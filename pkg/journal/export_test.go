package journal

// NewMemoryOf is [NewMemory] with blocks of another size.
func NewMemoryOf(capacityBytes uint64, blockSize int) *Memory {
	m := NewMemory(capacityBytes)
	m.arena = newArena(capacityBytes, blockSize)
	return m
}

// ArenaBytes is how much memory the journal keeps for what events carry, but for what is
// too large for a block.
func ArenaBytes(m *Memory) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.arena.made * m.arena.size
}
