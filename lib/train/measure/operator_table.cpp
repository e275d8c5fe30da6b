#include "train/measure/operator_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace trainctl::train {
namespace {

constexpr double kMsOfNs = 1e-6;

/// A call whose end was not seen took no time.
std::uint64_t duration_ns(const OperatorCall& call) {
  return call.end_ns > call.start_ns ? call.end_ns - call.start_ns : 0;
}

std::string text_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<std::string> parts;
  for (const auto& shape : shapes) parts.push_back(fmt::format("[{}]", fmt::join(shape, ", ")));
  return fmt::format("{}", fmt::join(parts, " "));
}

/// What each call spends, and allocates, outside its children. Where two of them overlap their
/// parent has lost that time once only.
struct Own {
  std::uint64_t ns = 0;
  std::int64_t bytes = 0;
};

/// A call that others may lie within.
struct Open {
  std::size_t call = 0;
  std::uint64_t covered_to_ns = 0;  // by its children so far, or nothing: its start
};

std::vector<Own> own_shares(const std::vector<OperatorCall>& calls) {
  std::vector<Own> own(calls.size());
  std::vector<Open> open;  // the calls that enclose the next one
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const OperatorCall& call = calls[i];
    const auto encloses = [&](const OperatorCall& outer) {
      return outer.thread == call.thread && outer.on_device == call.on_device &&
             outer.end_ns >= call.end_ns;
    };
    while (!open.empty() && !encloses(calls[open.back().call])) open.pop_back();
    if (call.name == kMemoryCall) {
      if (!open.empty()) own[open.back().call].bytes += call.bytes;
      continue;
    }
    own[i].ns = duration_ns(call);
    if (!open.empty()) {
      auto& [outer, covered] = open.back();
      own[outer].ns -= call.end_ns - std::min(std::max(covered, call.start_ns), call.end_ns);
      covered = std::max(covered, call.end_ns);
    }
    open.push_back({i, call.start_ns});
  }
  return own;
}

void add(OperatorRow& to, const OperatorRow& row) {
  to.calls += row.calls;
  to.self_ms += row.self_ms;
  to.total_ms += row.total_ms;
  to.gflops += row.gflops;
  to.mbytes += row.mbytes;
}

std::vector<OperatorRow> sorted(const std::map<std::string, OperatorRow>& by_key) {
  std::vector<OperatorRow> rows;
  for (const auto& [key, row] : by_key) rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater<>(), &OperatorRow::self_ms);
  return rows;
}

std::string quoted(std::string text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::vector<OperatorRow> operator_rows(std::vector<OperatorCall> calls) {
  std::ranges::stable_sort(calls, {}, [](const OperatorCall& call) {
    return std::tuple(call.on_device, call.thread, call.start_ns, ~call.end_ns);
  });
  const std::vector<Own> own = own_shares(calls);
  std::map<std::string, OperatorRow> by_key;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const OperatorCall& call = calls[i];
    if (call.name == kMemoryCall) continue;
    const std::string shapes = text_of(call.shapes);
    OperatorRow& row = by_key[fmt::format("{}\n{}\n{}", call.name, call.on_device, shapes)];
    row.name = call.name;
    row.shapes = shapes;
    row.on_device = call.on_device;
    add(row, {.calls = 1,
              .self_ms = static_cast<double>(own[i].ns) * kMsOfNs,
              .total_ms = static_cast<double>(duration_ns(call)) * kMsOfNs,
              .gflops = static_cast<double>(call.flops) * 1e-9,
              .mbytes = static_cast<double>(own[i].bytes) * 1e-6});
  }
  return sorted(by_key);
}

std::vector<OperatorRow> merge_shapes(const std::vector<OperatorRow>& rows) {
  std::map<std::string, OperatorRow> by_key;
  for (const OperatorRow& row : rows) {
    OperatorRow& merged = by_key[fmt::format("{}\n{}", row.name, row.on_device)];
    merged.name = row.name;
    merged.on_device = row.on_device;
    add(merged, row);
  }
  return sorted(by_key);
}

std::string operators_as_csv(const std::vector<OperatorRow>& rows) {
  std::string text = "operator,device,shapes,calls,self_ms,total_ms,gflop,mb\n";
  for (const OperatorRow& row : rows) {
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g}\n",
                   quoted(row.name), row.on_device ? "gpu" : "cpu", quoted(row.shapes), row.calls,
                   row.self_ms, row.total_ms, row.gflops, row.mbytes);
  }
  return text;
}

std::string operators_as_text(const std::vector<OperatorRow>& rows) {
  constexpr std::size_t kShown = 40;
  constexpr std::size_t kNameWidth = 48;
  double all = 0;
  for (const OperatorRow& row : rows) all += row.self_ms;
  std::string text =
      fmt::format("{:<{}} {:>3} {:>7} {:>10} {:>6} {:>10} {:>10} {:>10}\n", "operator", kNameWidth,
                  "on", "calls", "self ms", "self", "total ms", "GFLOP", "MB");
  for (std::size_t i = 0; i < std::min(kShown, rows.size()); ++i) {
    const OperatorRow& row = rows[i];
    fmt::format_to(std::back_inserter(text),
                   "{:<{}.{}} {:>3} {:>7} {:>10.3f} {:>5.1f}% {:>10.3f} {:>10.3f} {:>10.3f}\n",
                   row.name, kNameWidth, kNameWidth, row.on_device ? "gpu" : "cpu", row.calls,
                   row.self_ms, all > 0 ? 100 * row.self_ms / all : 0, row.total_ms, row.gflops,
                   row.mbytes);
  }
  if (rows.size() > kShown)
    fmt::format_to(std::back_inserter(text), "... and {} more in operators.csv\n",
                   rows.size() - kShown);
  return text;
}

}  // namespace trainctl::train
