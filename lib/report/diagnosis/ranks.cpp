#include "report/diagnosis/ranks.hpp"

#include <fmt/ranges.h>

namespace trainctl::report {
namespace {

constexpr double kStraggles = 0.10;
constexpr std::size_t kMostShownRanks = 16;
constexpr std::size_t kRowsOfMany = 8;

/// Returns averages over the steps; nullopt if there were none.
std::optional<RankRow> row_of(int rank, std::span<const events::RankEpoch> epochs) {
  RankRow row{.rank = rank};
  double overlapped_s = 0;
  double exchanged_s = 0;
  for (const events::RankEpoch& epoch : epochs) {
    row.steps += epoch.steps;
    row.step_s += epoch.wall_s;
    row.data_wait_s += epoch.data_wait_s;
    row.work_s += epoch.step_s;
    row.exposed_s += epoch.allreduce_exposed_s;
    row.wire_bytes += epoch.wire_bytes;
    overlapped_s += epoch.overlapped_s;
    exchanged_s += epoch.overlapped_s + epoch.exposed_s;
  }
  if (row.steps <= 0) return std::nullopt;
  const auto steps = static_cast<double>(row.steps);
  for (double* seconds : {&row.step_s, &row.data_wait_s, &row.work_s, &row.exposed_s})
    *seconds /= steps;
  row.wire_bytes /= row.steps;
  if (exchanged_s != 0) row.overlap = overlapped_s / exchanged_s;
  return row;
}

bool know_work(std::span<const RankRow> rows) {
  return std::ranges::all_of(rows, &RankRow::knows_work);
}

void compare(std::vector<RankRow>& rows) {
  if (!know_work(rows)) {
    for (RankRow& row : rows) row.slowdown = row.wait_beyond_s = std::nan("");
    return;
  }
  std::vector<double> own;
  std::vector<double> waits;
  for (const RankRow& row : rows) {
    own.push_back(row.own_s());
    waits.push_back(row.data_wait_s);
  }
  const double middle = median(own);
  const double wait = median(waits);
  if (!(middle > 0)) return;
  for (RankRow& row : rows) {
    row.slowdown = row.own_s() / middle - 1;
    row.wait_beyond_s = row.data_wait_s - wait;
  }
}

bool on_several_hosts(std::span<const RankRow> rows) {
  return std::ranges::any_of(rows, [&](const RankRow& row) { return row.host != rows[0].host; });
}

std::string name_of(const RankRow& row, std::span<const RankRow> rows) {
  const bool shows_host = on_several_hosts(rows) && !row.host.empty();
  return fmt::format("rank {}{}", row.rank, shows_host ? " on " + printable(row.host) : "");
}

std::string duration_text(double seconds) {
  return std::isnan(seconds) ? "-" : human_duration(seconds);
}

std::string signed_percent(double share) {
  if (std::isnan(share)) return "-";
  const auto percent = static_cast<int>(100 * share + (share < 0 ? -0.5 : 0.5));
  return fmt::format("{}{} %", percent > 0 ? "+" : "", percent);
}

/// Returns all rows in order if there are few ranks; otherwise the slowest rows, the slowest first.
std::vector<RankRow> shown(std::span<const RankRow> rows) {
  std::vector<RankRow> some(rows.begin(), rows.end());
  if (rows.size() <= kMostShownRanks) return some;
  if (know_work(rows))
    std::ranges::stable_sort(
        some, [](const RankRow& a, const RankRow& b) { return a.own_s() > b.own_s(); });
  some.resize(kRowsOfMany);
  return some;
}

}  // namespace

std::vector<RankRow> rank_rows(const RunRecord& record) {
  std::vector<RankRow> rows;
  for (const auto& [rank, epochs] : record.rank_epochs) {
    auto row = row_of(rank, without_first<events::RankEpoch>(epochs));
    if (!row) continue;
    if (const auto hello = record.hellos.find(rank); hello != record.hellos.end()) {
      row->host = hello->second.host;
      row->device = hello->second.device;
    }
    rows.push_back(std::move(*row));
  }
  if (rows.size() < 2) return {};
  compare(rows);
  return rows;
}

const RankRow* slowest(std::span<const RankRow> rows) {
  if (rows.empty() || !know_work(rows)) return nullptr;
  return &*std::ranges::max_element(rows, {}, &RankRow::own_s);
}

const RankRow* straggler(std::span<const RankRow> rows) {
  const RankRow* last = slowest(rows);
  return last != nullptr && last->slowdown > kStraggles ? last : nullptr;
}

Table ranks_table(std::span<const RankRow> rows) {
  const bool hosts = !rows.empty() && on_several_hosts(rows);
  std::vector<Column> columns{"rank"};
  if (hosts) columns.push_back(left("host"));
  columns.insert(columns.end(), {"step", "data wait", "work", "exposed all-reduce", "sent/step",
                                 "overlap", "slowdown"});
  Table table(columns);
  for (const RankRow& row : shown(rows)) {
    std::vector<std::string> cells{std::to_string(row.rank)};
    if (hosts) cells.push_back(printable(row.host));
    for (const double seconds : {row.step_s, row.data_wait_s, row.work_s, row.exposed_s})
      cells.push_back(duration_text(seconds));
    cells.insert(cells.end(), {human_bytes(row.wire_bytes),
                               std::isnan(row.overlap) ? "-" : percent_text(row.overlap) + " %",
                               signed_percent(row.slowdown)});
    table.add(std::move(cells));
  }
  return table;
}

std::string ranks_verdict(std::span<const RankRow> rows) {
  const RankRow* last = slowest(rows);
  if (last == nullptr)
    return rows.empty() ? ""
                        : "the slowest rank is not known, because the CUDA graphs of the steps "
                          "contain the all-reduce; trainer.cuda_graphs=false shows it";
  const std::string more =
      rows.size() > kMostShownRanks
          ? fmt::format("; {} of {} ranks are shown, ranks.csv has all", kRowsOfMany, rows.size())
          : "";
  if (straggler(rows) == nullptr)
    return fmt::format(
               "no rank is more than 10 % slower than the median rank; the slowest is {} ({})",
               name_of(*last, rows), signed_percent(last->slowdown)) +
           more;
  return fmt::format(
             "{} is a straggler: its computation and its waits for data take {} per step, {} more "
             "than the median rank; all other ranks wait for it",
             name_of(*last, rows), human_duration(last->own_s()),
             percent_text(last->slowdown) + " %") +
         more;
}

Json ranks_json(std::span<const RankRow> rows) {
  const auto known = [](double value) {
    return std::isnan(value) ? Json(nullptr) : json_number(value);
  };
  return json_list(rows, [&](const RankRow& row) {
    return joined({JSON_FIELDS(row, rank, host, device, steps, step_s, data_wait_s),
                   {{"work_s", known(row.work_s)},
                    {"allreduce_exposed_s", known(row.exposed_s)},
                    {"overlap", known(row.overlap)}},
                   JSON_FIELDS(row, wire_bytes),
                   {{"slowdown", known(row.slowdown)}}});
  });
}

Json straggler_json(std::span<const RankRow> rows) {
  const RankRow* last = straggler(rows);
  if (last == nullptr) return nullptr;
  return JSON_FIELDS(*last, rank, host, slowdown);
}

std::span<const RankColumn> rank_columns() {
  using events::RankEpoch;
  static constexpr std::array kColumns{
      RankColumn{.name = "step", .count = &RankEpoch::global_step},
      RankColumn{.name = "steps", .count = &RankEpoch::steps},
      RankColumn{"wall_s", &RankEpoch::wall_s},
      RankColumn{"data_wait_s", &RankEpoch::data_wait_s},
      RankColumn{"work_s", &RankEpoch::step_s},
      RankColumn{"allreduce_exposed_s", &RankEpoch::allreduce_exposed_s},
      RankColumn{"overlapped_s", &RankEpoch::overlapped_s},
      RankColumn{"exposed_s", &RankEpoch::exposed_s},
      RankColumn{"overlap", &RankEpoch::overlap},
      RankColumn{.name = "payload_bytes", .count = &RankEpoch::payload_bytes},
      RankColumn{.name = "wire_bytes", .count = &RankEpoch::wire_bytes}};
  return kColumns;
}

std::vector<CsvField> rank_fields(const events::RankEpoch& epoch) {
  std::vector<CsvField> fields{{"epoch", std::to_string(epoch.epoch + 1)},
                               {"rank", std::to_string(epoch.rank)}};
  for (const RankColumn& column : rank_columns()) {
    if (column.count != nullptr) {
      fields.push_back({column.name, std::to_string(epoch.*column.count)});
    } else {
      const double number = epoch.*column.number;
      fields.push_back({column.name, std::isnan(number) ? "" : exact_text(number)});
    }
  }
  fields.push_back({"bucket_bytes", fmt::format("{}", fmt::join(epoch.bucket_bytes, " "))});
  return fields;
}

}  // namespace trainctl::report
