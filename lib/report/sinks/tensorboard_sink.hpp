#pragma once

#include "events/records.hpp"
#include "report/sinks/sink.hpp"
#include "report/sinks/tensorboard_file.hpp"

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

struct TensorboardOptions {
  std::filesystem::path folder;  // of the event files; made where it is missing
  std::string host;
  std::function<double()> wall_time;           // seconds since 1970
  std::int64_t histograms_every_n_epochs = 1;  // 0: none
  /// Encodes RGB rows as a PNG file; empty: no pictures are written.
  std::function<tensorboard::Picture(int width, int height, const std::vector<unsigned char>& rgb)>
      picture;
  std::string config;  // YAML, shown under Text
  tensorboard::HParams hparams;
};

/// One event file for each start of a run: by step `step/...`; by epoch the metrics, `lr`,
/// `time_share/...`, `throughput/...` and `machine/...`; all at the global step. A resumed run
/// writes from which step, so that readers forget what came after. Records reach the disk at each
/// epoch; what a full disk does not take waits in a Backlog.
std::unique_ptr<Sink> make_tensorboard_sink(TensorboardOptions options);

}  // namespace trainctl::report
