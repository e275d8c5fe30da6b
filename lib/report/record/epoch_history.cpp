#include "report/record/epoch_history.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"
#include "report/text/csv_file.hpp"

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <system_error>

namespace trainctl::report {
namespace {

using events::Timing;

const std::map<std::string, double Timing::*>& plain_columns() {
  static const std::map<std::string, double Timing::*> kColumns{
      {"wall_s", &Timing::wall_s},
      {"data_wait_s", &Timing::data_wait_s},
      {"h2d_s", &Timing::h2d_s},
      {"forward_s", &Timing::forward_s},
      {"backward_s", &Timing::backward_s},
      {"allreduce_exposed_s", &Timing::allreduce_exposed_s},
      {"optimizer_s", &Timing::optimizer_s},
      {"eval_s", &Timing::eval_s},
      {"checkpoint_s", &Timing::checkpoint_s},
      {"other_s", &Timing::other_s},
      {"samples_per_s", &Timing::samples_per_s},
      {"first_batch_s", &Timing::first_batch_s},
      {"cpu_percent", &Timing::cpu_percent},
      {"rss_mb", &Timing::rss_mb},
      {"read_mb_s", &Timing::read_mb_s}};
  return kColumns;
}

std::optional<double> number(const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size() ? std::optional(value)
                                                                  : std::nullopt;
}

std::int64_t whole(double value) {
  return value >= 0 && value < 1e15 ? static_cast<std::int64_t>(value) : 0;
}

void set(events::EpochEnded& epoch, const std::string& column, double value) {
  Timing& timing = epoch.timing;
  const auto plain = plain_columns().find(column);
  if (plain != plain_columns().end()) {
    timing.*(plain->second) = value;
  } else if (column == "epoch") {
    epoch.epoch = whole(value) - 1;
  } else if (column == "step") {
    epoch.global_step = whole(value);
  } else if (column == "lr") {
    epoch.lr = value;
  } else if (column == "samples") {
    timing.samples = whole(value);
  } else if (column == "gpu_util") {
    timing.gpu_util = value;
  } else if (column == "gpu_mem_mb") {
    timing.gpu_mem_mb = value;
  } else {
    epoch.metrics.emplace_back(column, value);
  }
}

}  // namespace

std::vector<events::EpochEnded> read_epochs(const std::filesystem::path& epochs_csv) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  std::error_code ignored;
  if (!fs::is_regular_file(epochs_csv, ignored)) return {};
  return parse_epochs(read_file(epochs_csv, kMostBytes, ReadFailure::resource));
}

std::vector<events::EpochEnded> parse_epochs(const std::string& text) {
  std::vector<events::EpochEnded> epochs;
  const std::vector<std::string> lines = split(text, '\n');
  const std::vector<std::string> columns = csv_cells(lines.front());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = csv_cells(lines[i]);
    if (cells.size() != columns.size()) continue;
    events::EpochEnded epoch;
    epoch.epoch = -1;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (const auto value = number(cells[c])) set(epoch, columns[c], *value);
    }
    while (epoch.epoch >= 0 && !epochs.empty() && epochs.back().epoch >= epoch.epoch)
      epochs.pop_back();
    if (epoch.epoch >= 0) epochs.push_back(std::move(epoch));
  }
  return epochs;
}

}  // namespace trainctl::report
