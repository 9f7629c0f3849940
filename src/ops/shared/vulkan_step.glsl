// What kernels read of a StepState (onepass/step_state.h), and where the key of a position lies in
// a cache (ops/shared/cache.h). Before it: OP_READS(.., step) and, for caches, OP_READS(.., pages)
// with PAGES_VIEW.
const uint step_header = 8u, step_row = 4u, step_slot = 4u;

struct Step {
  uint n_rows, n_slots, slots_at;
};
// Whatever the words are, nothing outside the view is named.
Step read_step() {
  Step s = Step(0u, 0u, 0u);
  uint words = step_words();
  if (words < step_header) return s;
  uint max_rows = step_word(2u), max_slots = step_word(3u);
  if (max_rows > (words - step_header) / step_row) return s;
  s.slots_at = step_header + step_row * max_rows;
  s.n_rows = min(step_word(0u), max_rows);
  s.n_slots = min(max_slots, (words - s.slots_at) / step_slot);
  return s;
}
uint step_token(uint row) { return step_word(step_header + step_row * row); }
uint step_position(uint row) { return step_word(step_header + step_row * row + 1u); }
uint step_slot_of(uint row) { return step_word(step_header + step_row * row + 2u); }
uint step_kv_length(Step s, uint slot) { return step_word(s.slots_at + step_slot * slot); }
uint step_page_offset(Step s, uint slot) { return step_word(s.slots_at + step_slot * slot + 1u); }

#ifdef PAGES_VIEW
const uint page_positions = 256u, no_place = 0xffffffffu;

struct Places {
  uint slots, kv_heads, capacity, ring, n_pages;
};
// Row of the cache, counted in heads; no_place where it has none.
uint find_place(Places c, uint slot, uint page_offset, uint head, uint position) {
  uint block = slot, at = position;
  if (c.n_pages != 0u) {
    uint entry = page_offset + position / page_positions;
    if (entry < page_offset || entry >= c.n_pages) return no_place;
    block = pages_word(entry);
    at = position % page_positions;
  } else if (c.ring != 0u) {
    at = position % c.capacity;
  }
  if (block >= c.slots || at >= c.capacity) return no_place;
  return (block * c.kv_heads + head) * c.capacity + at;
}
// Positions a slot can name.
uint places_reach(Places c, uint page_offset) {
  if (c.n_pages != 0u) {
    return page_offset < c.n_pages ? (c.n_pages - page_offset) * page_positions : 0u;
  }
  return c.ring != 0u ? 0xffffffffu : c.capacity;
}
uint count_pages() { return is_bound(PAGES_VIEW) ? pages_words() : 0u; }
#endif
