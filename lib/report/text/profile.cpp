#include "report/text/profile.hpp"

#include "base/strings.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace trainctl::report {
namespace {

using Times = std::map<std::string, double>;  // of their own, by name

/// "aten::addmm" of a line that begins with it, quoted or not.
std::string first_cell(const std::string& line) {
  if (!line.starts_with('"')) return line.substr(0, line.find(','));
  return line.substr(1, line.find('"', 1) - 1);
}

/// operator,device,shapes,calls,self_ms,total_ms,gflop,mb; shapes may hold commas.
void add_line(const std::string& line, Times& on_cpu, Times& on_gpu) {
  constexpr std::size_t kCells = 8;
  constexpr std::size_t kSelfFromEnd = 4;
  const std::vector<std::string> cells = split(line, ',');
  if (cells.size() < kCells) return;
  const std::string name = first_cell(line);
  const bool is_kernel = line.find(",gpu,") != std::string::npos;
  (is_kernel ? on_gpu : on_cpu)[name] +=
      std::strtod(cells[cells.size() - kSelfFromEnd].c_str(), nullptr);
}

}  // namespace

std::string top_operator(std::string_view operators_csv) {
  Times on_cpu;
  Times on_gpu;
  const std::vector<std::string> lines = split(operators_csv, '\n');
  for (std::size_t i = 1; i < lines.size(); ++i) add_line(lines[i], on_cpu, on_gpu);
  const Times& times = on_gpu.empty() ? on_cpu : on_gpu;
  double all = 0;
  for (const auto& [name, ms] : times) all += ms;
  if (!(all > 0)) return "";
  const auto top = std::ranges::max_element(times, {}, [](const auto& one) { return one.second; });
  return fmt::format("{} takes {} % of the {}' time", printable(top->first),
                     percent_text(top->second / all), on_gpu.empty() ? "operators" : "kernels");
}

}  // namespace trainctl::report
