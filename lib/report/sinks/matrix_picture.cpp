#include "report/sinks/matrix_picture.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace trainctl::report {
namespace {

constexpr std::size_t kSide = 160;
constexpr std::size_t kMostClasses = 2048;
constexpr std::array<double, 3> kFull{8, 48, 107};  // of a share of 1; white of 0

void paint_cell(double share, std::size_t cells, std::vector<unsigned char>& line) {
  for (std::size_t i = 0; i < cells; ++i) {
    for (const double full : kFull)
      line.push_back(static_cast<unsigned char>(255 - share * (255 - full)));
  }
}

}  // namespace

void MatrixRows::add(const events::TableRow& row) {
  if (row.epoch != epoch_) rows_.clear();
  epoch_ = row.epoch;
  rows_[row.row] = row.counts;
}

bool MatrixRows::is_whole() const {
  const std::size_t side = rows_.size();
  return side > 0 && side <= kMostClasses && rows_.rbegin()->first + 1 == std::ssize(rows_) &&
         std::ranges::all_of(rows_, [&](const auto& row) { return row.second.size() == side; });
}

Raster MatrixRows::draw() const {
  const std::size_t cell = std::max<std::size_t>(1, kSide / rows_.size());
  Raster raster;
  raster.width = raster.height = static_cast<int>(cell * rows_.size());
  for (const auto& [index, counts] : rows_) {
    const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    std::vector<unsigned char> line;
    for (const std::int64_t count : counts)
      paint_cell(total > 0 ? static_cast<double>(count) / static_cast<double>(total) : 0, cell,
                 line);
    for (std::size_t i = 0; i < cell; ++i)
      raster.rgb.insert(raster.rgb.end(), line.begin(), line.end());
  }
  return raster;
}

}  // namespace trainctl::report
