// Leaves and sums of decision trees, rows side by side in vectors. The tables are made by _native.py.
//
// A tree's top is decided by bit vectors (QuickScorer, Lucchese et al., SIGIR 2015): each split that sends a row to the
// right strikes the leaves on its left out of a word of 32 bits. What hangs below the top is walked.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace {

constexpr int LANES = 16;
constexpr int MOST = 1024;  // rows of a block
constexpr int ABREAST = 16;  // trees that one row walks at a time: while one waits for its node, others step

typedef int32_t Words __attribute__((vector_size(4 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));

struct Forest {
  int64_t trees, columns, values, features;
  int64_t block;              // rows whose numbers stay in the second-level cache, a multiple of 64
  const int32_t* top;         // trees + 1: first split of each tree
  const int32_t* feature;     // of each split: column of the table
  const int32_t* limit;       // of each split: rank, or bits of a float
  const int32_t* mask;        // of each split: leaves that stay when a row goes to the right
  const int32_t* first_exit;  // of each tree
  const int32_t* exit;        // of each exit: a place below the tops
  const int32_t* steps;       // of each tree: levels below its top
  const int32_t* below;       // of each place: column, limit, left child
  const int32_t* node;        // of each place: the node
  const int32_t* target;      // of each tree: the first column that it adds to
  const int32_t* used;        // columns of the table that are read: feature, or features + feature for NaN as it is
  int64_t used_count;
  const double* cuts;         // of each used column: its thresholds in ascending order, for ranks
  const int64_t* first_cut;   // used_count + 1
  const void* value;          // of each place: `values` numbers
  const void* base;           // columns
  double divisor;
  int32_t ranked;             // whether numbers of float64 are compared by rank
};

// How many thresholds each number is not at most: all of them if it is NaN. Rows side by side, so without branches.
void ranks_of(const double* cuts, int64_t count, const double* numbers, int64_t rows, int32_t* ranks) {
  for (int64_t row = 0; row < rows; ++row) ranks[row] = 0;
  if (!count) return;
  for (int32_t left = static_cast<int32_t>(count); left > 1;) {
    const int32_t half = left / 2;
    for (int64_t row = 0; row < rows; ++row)
      ranks[row] += numbers[row] <= cuts[ranks[row] + half - 1] ? 0 : half;
    left -= half;
  }
  for (int64_t row = 0; row < rows; ++row) ranks[row] += numbers[row] <= cuts[ranks[row]] ? 0 : 1;
}

template <typename Number>
void read_block(const Forest& f, const Number* x, int64_t row_step, int64_t column_step, int64_t rows, int width,
                int32_t* table) {
  for (int64_t own = 0; own < f.used_count; ++own) {
    const int64_t column = f.used[own];
    const bool keeps = column >= f.features;
    const Number* from = x + (keeps ? column - f.features : column) * column_step;
    int32_t* to = table + column * f.block;
    Number numbers[MOST];
    for (int64_t row = 0; row < rows; ++row) {
      const Number number = from[row * row_step];
      numbers[row] = !keeps && std::isnan(number) ? -std::numeric_limits<Number>::infinity() : number;
    }
    if (f.ranked) {
      double wide[MOST];
      for (int64_t row = 0; row < rows; ++row) wide[row] = static_cast<double>(numbers[row]);
      ranks_of(f.cuts + f.first_cut[own], f.first_cut[own + 1] - f.first_cut[own], wide, rows, to);
    } else {
      for (int64_t row = 0; row < rows; ++row) {
        const float single = static_cast<float>(numbers[row]);
        std::memcpy(to + row, &single, sizeof single);
      }
    }
    for (int64_t row = rows; row < width; ++row) to[row] = 0;
  }
}

template <bool Ranked>
inline Words at_most(const int32_t* numbers, int32_t limit) {
  if constexpr (Ranked) {
    Words x;
    std::memcpy(&x, numbers, sizeof x);
    return x <= limit;
  } else {
    Floats x;
    float threshold;
    std::memcpy(&x, numbers, sizeof x);
    std::memcpy(&threshold, &limit, sizeof threshold);
    return x <= threshold;
  }
}

template <bool Ranked>
inline int32_t right(int32_t number, int32_t limit) {
  if constexpr (Ranked) {
    return number > limit;
  } else {
    float x, threshold;
    std::memcpy(&x, &number, sizeof x);
    std::memcpy(&threshold, &limit, sizeof threshold);
    return !(x <= threshold);
  }
}

// Places of the leaves of one tree for 16 * VECTORS rows.
template <bool Ranked, int VECTORS>
inline void leaves_of(const Forest& f, int64_t tree, const int32_t* table, int32_t* at) {
  Words alive[VECTORS];
  for (int v = 0; v < VECTORS; ++v) alive[v] = Words{} - 1;
  for (int32_t split = f.top[tree]; split < f.top[tree + 1]; ++split) {
    const int32_t* numbers = table + static_cast<int64_t>(f.feature[split]) * f.block;
    const int32_t limit = f.limit[split], mask = f.mask[split];
    for (int v = 0; v < VECTORS; ++v) alive[v] &= at_most<Ranked>(numbers + v * LANES, limit) | mask;
  }
  const int32_t* exit = f.exit + f.first_exit[tree];
  for (int v = 0; v < VECTORS; ++v) {
    // A float of the lowest bit has its place as exponent.
    const Floats lowest = __builtin_convertvector(alive[v] & -alive[v], Floats);
    Words bits;
    std::memcpy(&bits, &lowest, sizeof bits);
    bits = ((bits >> 23) & 255) - 127;
    std::memcpy(at + v * LANES, &bits, sizeof bits);
  }
  for (int lane = 0; lane < VECTORS * LANES; ++lane) at[lane] = exit[at[lane]];
  for (int32_t step = 0; step < f.steps[tree]; ++step) {
    int32_t moved = 0;
    for (int lane = 0; lane < VECTORS * LANES; ++lane) {
      const int32_t* place = f.below + static_cast<int64_t>(at[lane]) * 3;
      const int32_t next =
          place[2] + right<Ranked>(table[static_cast<int64_t>(place[0]) * f.block + lane], place[1]);
      moved |= next ^ at[lane];
      at[lane] = next;
    }
    if (!moved) break;
  }
}

template <typename Value>
inline void add(const Forest& f, int64_t tree, const int32_t* at, int64_t rows, Value* sums) {
  const Value* value = static_cast<const Value*>(f.value);
  Value* own = sums + f.target[tree];
  if (f.values == 1) {
    for (int64_t row = 0; row < rows; ++row) own[row * f.columns] += value[at[row]];
  } else {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t one = 0; one < f.values; ++one)
        own[row * f.columns + one] += value[static_cast<int64_t>(at[row]) * f.values + one];
  }
}

template <bool Ranked, int VECTORS, typename Value>
void run_block(const Forest& f, const int32_t* table, int64_t rows, int64_t* leaves, Value* sums) {
  constexpr int WIDTH = VECTORS * LANES;
  alignas(64) int32_t at[WIDTH];
  for (int64_t tree = 0; tree < f.trees; ++tree)
    for (int64_t start = 0; start < rows; start += WIDTH) {
      leaves_of<Ranked, VECTORS>(f, tree, table + start, at);
      const int64_t count = rows - start < WIDTH ? rows - start : WIDTH;
      if (leaves)
        for (int64_t row = 0; row < count; ++row) leaves[(start + row) * f.trees + tree] = f.node[at[row]];
      if (sums) add(f, tree, at, count, sums + start * f.columns);
    }
}

template <typename Number, typename Value>
void run(const Forest& f, const Number* x, int64_t rows, int64_t row_step, int64_t column_step, int32_t* table,
         int64_t* leaves, Value* sums) {
  for (int64_t start = 0; start < rows; start += f.block) {
    const int64_t count = rows - start < f.block ? rows - start : f.block;
    const bool few = count <= LANES;
    const int width = few ? LANES : static_cast<int>((count + 63) / 64 * 64);
    read_block(f, x + start * row_step, row_step, column_step, count, width, table);
    int64_t* to = leaves ? leaves + start * f.trees : nullptr;
    Value* own = sums ? sums + start * f.columns : nullptr;
    if (own)
      for (int64_t row = 0; row < count; ++row)
        for (int64_t column = 0; column < f.columns; ++column)
          own[row * f.columns + column] = static_cast<const Value*>(f.base)[column];
    if (f.ranked)
      few ? run_block<true, 1>(f, table, count, to, own) : run_block<true, 4>(f, table, count, to, own);
    else
      few ? run_block<false, 1>(f, table, count, to, own) : run_block<false, 4>(f, table, count, to, own);
    if (own && f.divisor != 1)
      for (int64_t at = 0; at < count * f.columns; ++at) own[at] = static_cast<Value>(own[at] / f.divisor);
  }
}

// Sums of a few rows, one after the other, each of which steps down its trees. Here the forest's places are all nodes,
// its exits are the roots, and its block is one row.
template <bool Ranked, typename Number, typename Value>
void walk(const Forest& f, const Number* x, int64_t rows, int32_t* table, Value* sums) {
  for (int64_t row = 0; row < rows; ++row) {
    read_block(f, x + row * f.features, f.features, 1, 1, 1, table);
    Value* own = sums + row * f.columns;
    for (int64_t column = 0; column < f.columns; ++column) own[column] = static_cast<const Value*>(f.base)[column];
    for (int64_t first = 0; first < f.trees; first += ABREAST) {
      const int64_t count = f.trees - first < ABREAST ? f.trees - first : ABREAST;
      int32_t at[ABREAST];
      for (int64_t one = 0; one < ABREAST; ++one) at[one] = f.exit[one < count ? first + one : first];
      for (int32_t moved = 1; moved;) {
        moved = 0;
        for (int one = 0; one < ABREAST; ++one) {
          const int32_t* place = f.below + static_cast<int64_t>(at[one]) * 3;
          const int32_t next = place[2] + right<Ranked>(table[place[0]], place[1]);
          moved |= next ^ at[one];
          at[one] = next;
        }
      }
      for (int64_t one = 0; one < count; ++one) add(f, first + one, at + one, 1, own);
    }
    if (f.divisor != 1)
      for (int64_t column = 0; column < f.columns; ++column)
        own[column] = static_cast<Value>(own[column] / f.divisor);
  }
}

template <typename Number, typename Value>
void walk(const Forest* f, const void* x, int64_t rows, int32_t* table, void* sums) {
  f->ranked ? walk<true>(*f, static_cast<const Number*>(x), rows, table, static_cast<Value*>(sums))
            : walk<false>(*f, static_cast<const Number*>(x), rows, table, static_cast<Value*>(sums));
}

}  // namespace

extern "C" {

int64_t most_rows() { return MOST; }

// kinds: bit 0, whether the numbers are float64; bit 1, whether the values are.
void run_trees(const Forest* forest, const void* x, int64_t rows, int64_t row_step, int64_t column_step, int32_t kinds,
               int32_t* table, int64_t* leaves, void* sums) {
  switch (kinds) {
    case 0:
      return run(*forest, static_cast<const float*>(x), rows, row_step, column_step, table, leaves,
                 static_cast<float*>(sums));
    case 1:
      return run(*forest, static_cast<const double*>(x), rows, row_step, column_step, table, leaves,
                 static_cast<float*>(sums));
    case 2:
      return run(*forest, static_cast<const float*>(x), rows, row_step, column_step, table, leaves,
                 static_cast<double*>(sums));
    default:
      return run(*forest, static_cast<const double*>(x), rows, row_step, column_step, table, leaves,
                 static_cast<double*>(sums));
  }
}

// The same for a few rows that lie one after the other.
void walk_trees(const Forest* forest, const void* x, int64_t rows, int32_t kinds, int32_t* table, void* sums) {
  switch (kinds) {
    case 0:
      return walk<float, float>(forest, x, rows, table, sums);
    case 1:
      return walk<double, float>(forest, x, rows, table, sums);
    case 2:
      return walk<float, double>(forest, x, rows, table, sums);
    default:
      return walk<double, double>(forest, x, rows, table, sums);
  }
}
}
