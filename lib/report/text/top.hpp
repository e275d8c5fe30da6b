#pragma once

#include "base/json.hpp"
#include "report/text/format.hpp"

#include <cstdint>

namespace trainctl::report {

/// A process of the run, as its heartbeat and the kernel tell.
struct TopRank {
  int rank = 0;
  std::int64_t pid = 0;
  std::string phase;       // "train"; empty: not known
  std::int64_t step = -1;  // -1: not known
  std::optional<double> steps_per_s;
  std::optional<double> idle_s;  // since it last stamped
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
  elsewhere,  // its lock names another host
  gone,       // it has neither ended nor is there a process
  ended
};

/// What a look at the folder of a run and at the processes of its host shows.
struct TopView {
  std::string run_dir;
  std::string name;
  TopState state = TopState::running;
  std::string host;                  // of the supervisor, where the run is locked
  std::int64_t pid = 0;              // of the supervisor
  std::string since;                 // UTC
  std::int64_t epoch = 0;            // complete
  std::int64_t max_epochs = 0;       // 0: not known
  std::int64_t steps_per_epoch = 0;  // 0: not known
  std::int64_t step = 0;
  std::optional<double> steps_per_s;
  std::optional<double> samples_per_s;
  std::optional<double> eta_s;
  std::optional<double> data_wait_share;  // of the last epoch
  std::optional<double> lr;
  std::vector<double> losses;                           // of training, the newest last
  std::vector<std::pair<std::string, double>> metrics;  // of the last epoch
  std::vector<TopRank> ranks;
  std::vector<TopGpu> gpus;
  std::optional<TopCheckpoint> checkpoint;
  std::vector<std::string> warnings;  // the last lines of the logs that warn
  std::string verdict;                // of a run that has ended
  std::optional<std::int64_t> exit_code;
  std::string message;
};

const char* name_of(TopState state);

/// Lines for a terminal of `style.width` columns, at most `height` of them (0: any number).
std::string top_text(const TopView& view, const Style& style, int height = 0);

/// "trainctl.top/1".
Json top_json(const TopView& view);

}  // namespace trainctl::report
