#pragma once

#include "events/records.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace trainctl::report {

struct Raster {
  int width = 0;
  int height = 0;
  std::vector<unsigned char> rgb;
};

/// The rows of one table of counts, as they come, and a picture of it: a row's counts as shares of
/// the row, white to blue; at least 160 pixels a side where the classes are few.
class MatrixRows {
 public:
  /// A row of a later epoch begins anew.
  void add(const events::TableRow& row);
  /// Square, and every row is there.
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] Raster draw() const;

 private:
  std::int64_t epoch_ = -1;
  std::map<std::int64_t, std::vector<std::int64_t>> rows_;
};

}  // namespace trainctl::report
