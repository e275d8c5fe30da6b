#pragma once

#include "report/text/format.hpp"

#include <array>
#include <cstdint>

namespace trainctl::report {

/// A process of the run, from its heartbeat and the kernel.
struct TopRank {
  int rank = 0;
  std::int64_t pid = 0;
  std::string phase;       // "train"; empty: unknown
  std::int64_t step = -1;  // -1: unknown
  std::optional<double> steps_per_s;
  std::optional<double> idle_s;  // since its last heartbeat
  std::optional<double> cpu_percent;
  std::uint64_t rss_bytes = 0;
};

struct TopGpu {
  int index = 0;
  std::string name;
  std::optional<double> percent;
  std::uint64_t used_bytes = 0;
  std::uint64_t total_bytes = 0;
};

struct TopCheckpoint {
  std::string name;
  std::int64_t step = 0;
  double age_s = 0;
};

enum class TopState {
  running,
  elsewhere,  // the lock names another host
  gone,       // neither an end nor a process was found
  ended
};
constexpr std::array<const char*, 4> enum_names(TopState) {
  return {"running", "elsewhere", "gone", "ended"};
}

/// The state of a run, from its folder and the processes of its host.
struct TopView {
  std::string run_dir;
  std::string name;
  TopState state = TopState::running;
  std::string host;                  // of the supervisor, if the run is locked
  std::int64_t pid = 0;              // of the supervisor
  std::string since;                 // UTC
  std::int64_t epoch = 0;            // number of complete epochs
  std::int64_t max_epochs = 0;       // 0: unknown
  std::int64_t steps_per_epoch = 0;  // 0: unknown
  std::int64_t step = 0;
  std::optional<double> steps_per_s;
  std::optional<double> samples_per_s;
  std::optional<double> eta_s;
  std::optional<double> data_wait_share;  // in the last epoch
  std::optional<double> lr;
  std::vector<double> losses;                           // training losses, the newest last
  std::vector<std::pair<std::string, double>> metrics;  // of the last epoch
  std::vector<TopRank> ranks;
  std::vector<TopGpu> gpus;
  std::optional<TopCheckpoint> checkpoint;
  std::vector<std::string> warnings;  // last warning lines of the logs
  std::string verdict;                // of a run that has ended
  std::optional<std::int64_t> exit_code;
  std::string message;
};

/// Returns lines for a terminal of `style.width` columns, at most `height` lines (0: no limit).
std::string top_text(const TopView& view, const Style& style, int height = 0);

/// Returns a document with schema "trainctl.top/2".
Json top_json(const TopView& view);

}  // namespace trainctl::report
