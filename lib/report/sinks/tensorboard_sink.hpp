#pragma once

#include "report/html/run_page.hpp"
#include "report/sinks/sink.hpp"
#include "report/sinks/tensorboard_file.hpp"

namespace trainctl::report {

/// An RGB image, 3 bytes per pixel in rows from the top.
struct Raster {
  int width = 0;
  int height = 0;
  std::vector<unsigned char> rgb;
};

/// Collects the rows of a table of counts and draws it: the counts as fractions of their row, from
/// white to blue, at least 160 pixels wide and high for few classes.
class MatrixRows {
 public:
  /// Adds a row; a row of a later epoch discards the earlier rows.
  void add(const events::TableRow& row);
  /// Returns whether the table is square, has all rows, and has at most 2,048 of them.
  [[nodiscard]] bool is_whole() const;
  /// Draws the table, which must be whole.
  [[nodiscard]] Raster draw() const;

 private:
  std::int64_t epoch_ = -1;
  std::map<std::int64_t, std::vector<std::int64_t>> rows_;
};

/// Returns the numbers of a logged step, or of an epoch, by their tags such as `step/lr` or
/// `time_share/data_wait`. The logger `mlflow` uses the same names.
tensorboard::Scalars scalars_of(const events::StepLogged& step);
tensorboard::Scalars scalars_of(const events::LayerNorms& norms);
tensorboard::Scalars scalars_of(const events::Validated& validated);
tensorboard::Scalars scalars_of(const events::EpochEnded& epoch);

/// The options of make_tensorboard_sink().
struct TensorboardOptions {
  std::filesystem::path folder;  // folder of the event files; created if missing
  std::string host;
  std::function<double()> wall_time;           // seconds since 1970
  std::int64_t histograms_every_n_epochs = 1;  // 0: no histograms
  /// Encodes RGB rows as a PNG file; if empty, no pictures are written.
  std::function<tensorboard::Picture(int width, int height, const std::vector<unsigned char>& rgb)>
      picture;
  std::string config;  // YAML for the Text tab
  tensorboard::HParams hparams;
};

/// Returns a sink that writes one event file for each start of a run: by step `step/...`; by epoch
/// the metrics, `lr`, `time_share/...`, `throughput/...` and `machine/...`; all at the global step.
/// A resumed run records its first step, so that readers discard later values. Records are synced
/// at each epoch; records that a full disk rejects wait in a Backlog.
std::unique_ptr<Sink> make_tensorboard_sink(TensorboardOptions options);

/// Writes the pictures of samples, the worst first, into a new event file of the folder, with tags
/// such as "worst_predictions/01 label 7 predicted 2". Returns the file. Throws Error(config) if no
/// sample has a picture, Error(resource) if the file cannot be written.
std::filesystem::path write_worst_pictures(const std::filesystem::path& folder,
                                           const std::string& host, tensorboard::Moment moment,
                                           const std::vector<WorstSample>& samples);

}  // namespace trainctl::report
