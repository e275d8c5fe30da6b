#include "launch/launchers/slurm_variables.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <optional>
#include <string_view>

namespace trainctl::launch {
namespace {

bool is_host(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  return !text.empty() && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int> count(std::string_view text) {
  const auto value = parse_number<int>(text);
  return value && *value > 0 ? value : std::nullopt;
}

/// "2(x3)": 2 tasks on each of 3 nodes.
struct Repeated {
  int tasks = 0;
  int nodes = 1;
};

std::optional<Repeated> read_repeated(std::string_view text) {
  const std::size_t bracket = text.find("(x");
  const auto tasks = count(text.substr(0, bracket));
  if (!tasks) return std::nullopt;
  if (bracket == std::string_view::npos) return Repeated{*tasks, 1};
  if (!text.ends_with(')')) return std::nullopt;
  const auto nodes = count(text.substr(bracket + 2, text.size() - bracket - 3));
  return nodes ? std::optional(Repeated{*tasks, *nodes}) : std::nullopt;
}

}  // namespace

std::string first_host(const std::string& list) {
  const auto refuse = [&]() -> std::string {
    throw Error(ErrorKind::config,
                fmt::format("the node list '{}' of Slurm is none: expected names such as "
                            "'node[01-03,7]'; set MASTER_ADDR to the first host",
                            printable(list)));
  };
  std::string host;
  std::string_view rest = list;
  while (!rest.empty() && rest.front() != ',') {  // "rack[1-2]node[3-4]" has two ranges
    if (rest.front() != '[') {
      host += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return refuse();
    const std::string_view range = rest.substr(1, close - 1);
    const std::string_view first = range.substr(0, range.find_first_of("-,"));
    if (!is_number(first)) return refuse();
    host += first;
    rest.remove_prefix(close + 1);
  }
  return is_host(host) ? host : refuse();
}

int tasks_of_node(const std::string& counts, int node) {
  int before = 0;
  for (const std::string& part : split(counts, ',')) {
    const auto repeated = read_repeated(part);
    ENSURE(config, repeated.has_value(),
           "SLURM_STEP_TASKS_PER_NODE is '{}': expected numbers such as '2(x3),1'",
           printable(counts));
    if (node - before < repeated->nodes) return repeated->tasks;
    before += repeated->nodes;
  }
  throw Error(
      ErrorKind::config,
      fmt::format("SLURM_NODEID is {}, but SLURM_STEP_TASKS_PER_NODE is '{}', of {} node(s)", node,
                  printable(counts), before));
}

std::uint16_t port_of_job(std::uint64_t job, std::uint64_t step) {
  constexpr std::uint64_t kFirst = 12000;
  constexpr std::uint64_t kPorts = 16000;
  constexpr std::uint64_t kStride = 4093;  // a prime: the steps of neighbouring jobs lie apart
  return static_cast<std::uint16_t>(kFirst + (job % kPorts + step % kPorts * kStride) % kPorts);
}

}  // namespace trainctl::launch
