#include "report/sinks/tensorboard_sink.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "report/record/run_record.hpp"

#include <cmath>
#include <numeric>

namespace trainctl::report {
namespace {

constexpr std::size_t kSide = 160;
constexpr std::size_t kMostPictureClasses = 2048;
constexpr std::array<double, 3> kFull{8, 48, 107};  // color of fraction 1; fraction 0 is white

void paint_cell(double share, std::size_t cells, std::vector<unsigned char>& line) {
  for (std::size_t i = 0; i < cells; ++i) {
    for (const double full : kFull)
      line.push_back(static_cast<unsigned char>(255 - share * (255 - full)));
  }
}

using tensorboard::Moment;
using tensorboard::Scalars;

/// Adds data_wait_s as a fraction of the wall time under time_share/data_wait, and the values that
/// are not times under other tags.
void add_timing(const events::Timing& timing, Scalars& scalars) {
  const std::map<std::string_view, std::string> others{
      {"samples_per_s", "throughput/samples_per_s"},
      {"first_batch_s", "throughput/first_batch_s"},
      {"read_mb_s", "throughput/read_mb_s"},
      {"cpu_percent", "machine/cpu_percent"},
      {"rss_mb", "machine/rss_mb"},
      {"gpu_util", "machine/gpu_util"},
      {"gpu_mem_mb", "machine/gpu_mem_mb"},
      {"wall_s", "throughput/epoch_wall_s"}};
  for (const auto& [name, value] : timing_columns(timing)) {
    if (!value || name == "samples") continue;
    const auto other = others.find(name);
    if (other != others.end()) {
      scalars.emplace_back(other->second, *value);
    } else if (name.ends_with("_s") && timing.wall_s > 0) {
      scalars.emplace_back("time_share/" + name.substr(0, name.size() - 2), *value / timing.wall_s);
    }
  }
}

int code_of(const Json& result) {
  const auto code = result.find("exit_code");
  return code != result.end() && code->is_number_integer()
             ? code->get<int>()
             : static_cast<int>(ErrorKind::unexpected);
}

/// Returns whether the run is finished: no further start follows, and it is not requeued.
bool is_over(const Json& result) {
  return !result.value("will_restart", false) &&
         code_of(result) != static_cast<int>(ErrorKind::stopped);
}

/// Returns a run's ending as Markdown.
std::string ending_text(const Json& result) {
  std::string text = fmt::format("**{}**", result.value("verdict", "unknown"));
  const auto message = result.find("message");
  if (message != result.end() && message->is_string() && !message->get<std::string>().empty())
    text += ": " + printable_lines(message->get<std::string>());
  const auto bottleneck = result.find("bottleneck");
  if (bottleneck != result.end() && bottleneck->is_object())
    text += "\n\n```json\n" + to_pretty(*bottleneck) + "\n```";
  return text;
}

/// Returns a PNG file as a picture; its size is at a fixed place of the file.
tensorboard::Picture picture_of_png(const std::string& png) {
  constexpr std::size_t kWidthAt = 16;
  constexpr std::size_t kHeightAt = 20;
  ASSERT(png.size() >= kHeightAt + 4);
  const auto number_at = [&](std::size_t at) {
    int number = 0;
    for (std::size_t i = 0; i < 4; ++i)
      number = number * 256 + static_cast<unsigned char>(png[at + i]);
    return number;
  };
  return {number_at(kWidthAt), number_at(kHeightAt), png};
}

class TensorboardSink final : public Sink {
 public:
  explicit TensorboardSink(TensorboardOptions options) : options_(std::move(options)) {}

  void on_event(int rank, const events::Event& event) override {
    if (rank != 0 && !std::holds_alternative<events::RankEpoch>(event)) return;
    std::visit([this](const auto& one) { take(one); }, event);
  }
  void on_tick(double now) override { backlog_.on_tick(now); }
  void close() override { backlog_.close(); }
  std::optional<std::string> take_warning() override { return backlog_.take_warning(); }
  void on_end(const Json& result) override {
    begin();
    write_pictures(at(last_step_));
    write(tensorboard::text_event(at(last_step_), "result", ending_text(result)));
    if (is_over(result)) {
      const bool well = code_of(result) == 0;
      write(tensorboard::hparams_end_event(
          options_.wall_time(), well ? tensorboard::Success::yes : tensorboard::Success::no));
    }
    backlog_.add([this] {
      if (file_) file_->sync();
    });
  }

 private:
  template <class Other>
  void take(const Other& /*event*/) {}
  void take(const events::Resumed& resumed) {
    first_step_ = resumed.global_step + 1;
    last_step_ = resumed.global_step;
  }

  void take(const events::StepLogged& step) {
    begin();
    last_step_ = step.global_step;
    write(tensorboard::scalars_event(at(step.global_step), scalars_of(step)));
    if (last_logged_ && last_logged_->epoch == step.epoch &&
        last_logged_->global_step < step.global_step)
      step_times_.push_back((step.elapsed_s - last_logged_->elapsed_s) /
                            static_cast<double>(step.global_step - last_logged_->global_step));
    last_logged_ = step;
  }

  void take(const events::Validated& validated) {
    begin();
    last_step_ = validated.global_step;
    write(tensorboard::scalars_event(at(last_step_), scalars_of(validated)));
  }

  void take(const events::EpochEnded& epoch) {
    begin();
    last_step_ = epoch.global_step;
    const Moment moment = at(epoch.global_step);
    write(tensorboard::scalars_event(moment, scalars_of(epoch)));
    write_histograms(epoch, moment);
    write_pictures(moment);
    write_samples(epoch.epoch, moment);
    backlog_.add([this] {
      if (file_) file_->sync();
    });
  }

  void take(const events::LayerNorms& norms) {
    begin();
    write(tensorboard::scalars_event(at(norms.global_step), scalars_of(norms)));
  }

  void take(const events::Distribution& values) {
    begin();
    write(tensorboard::histogram_event(at(values.global_step), values.tag, values));
  }

  void take(const events::RankEpoch& epoch) {
    if (epoch.steps > 0 && !std::isnan(epoch.step_s))
      rank_times_.push_back(epoch.step_s / static_cast<double>(epoch.steps));
  }

  void take(const events::TableRow& row) {
    if (!options_.picture || row.counts.empty()) return;
    matrices_[row.metric].add(row);
  }

  // The file starts with the first numbers, because only then it is known where the run resumes.
  void begin() {
    if (std::exchange(has_begun_, true)) return;
    const bool covers_whole_run = first_step_ == 0 || !tensorboard::has_files(options_.folder);
    write(tensorboard::start_event(at(first_step_)));
    if (!covers_whole_run) return;
    for (std::string& event : tensorboard::hparams_events(options_.wall_time(), options_.hparams))
      write(std::move(event));
    if (!options_.config.empty())
      write(tensorboard::text_event(at(first_step_), "config",
                                    "```yaml\n" + options_.config + "```"));
  }

  void open() {
    if (file_) return;
    make_folder(options_.folder);
    const double now = options_.wall_time();
    file_.emplace(tensorboard::next_file(options_.folder, now, options_.host), now);
  }

  void write(std::string event) {
    if (event.empty()) return;
    backlog_.add([this, event = std::move(event)] {
      open();
      file_->append(event);
    });
  }

  void write_histograms(const events::EpochEnded& epoch, Moment moment) {
    const std::int64_t every = options_.histograms_every_n_epochs;
    if (every > 0 && (epoch.epoch + 1) % every == 0) {
      write(tensorboard::histogram_event(moment, "step_seconds", histogram_of(step_times_)));
      if (rank_times_.size() > 1)
        write(tensorboard::histogram_event(moment, "rank_step_seconds", histogram_of(rank_times_)));
    }
    step_times_.clear();
    rank_times_.clear();
  }

  void write_pictures(Moment moment) {
    for (const auto& [metric, rows] : matrices_) {
      if (!rows.is_whole()) continue;
      const Raster raster = rows.draw();
      try {
        write(tensorboard::image_event(moment, metric,
                                       options_.picture(raster.width, raster.height, raster.rgb)));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::resource) throw;  // a missing picture must not end the run
      }
    }
    matrices_.clear();
  }

  /// Writes what the model has made after the epoch, if the trainer has written a file of that.
  void write_samples(std::int64_t epoch, Moment moment) {
    constexpr std::uint64_t kMostBytes = 64 << 20;
    const auto folder = options_.folder.parent_path() / "samples";
    const auto file = folder / fmt::format("epoch-{:04}.png", epoch + 1);
    if (!is_file(file)) return;
    write(tensorboard::image_event(
        moment, "samples", picture_of_png(read_file(file, kMostBytes, ReadFailure::resource))));
  }

  [[nodiscard]] Moment at(std::int64_t step) const { return {options_.wall_time(), step}; }

  TensorboardOptions options_;
  Backlog backlog_;
  std::optional<tensorboard::EventFile> file_;
  bool has_begun_ = false;
  std::int64_t first_step_ = 0;  // of this start
  std::int64_t last_step_ = 0;
  std::optional<events::StepLogged> last_logged_;
  std::vector<double> step_times_;  // in seconds, in this epoch
  std::vector<double> rank_times_;  // seconds per step, of the ranks in this epoch
  std::map<std::string, MatrixRows> matrices_;
};

}  // namespace

Scalars scalars_of(const events::StepLogged& step) {
  Scalars scalars{{"step/train_loss", step.loss}, {"step/lr", step.lr}};
  if (step.grad_norm) scalars.emplace_back("step/grad_norm", *step.grad_norm);
  if (step.param_norm) scalars.emplace_back("step/param_norm", *step.param_norm);
  return scalars;
}

Scalars scalars_of(const events::LayerNorms& norms) {
  Scalars scalars;
  for (const auto& [layer, norm] : norms.norms) scalars.emplace_back("grad_norm/" + layer, norm);
  return scalars;
}

Scalars scalars_of(const events::Validated& validated) {
  return {validated.metrics.begin(), validated.metrics.end()};
}

Scalars scalars_of(const events::EpochEnded& epoch) {
  Scalars scalars(epoch.metrics.begin(), epoch.metrics.end());
  scalars.emplace_back("lr", epoch.lr);
  scalars.emplace_back("epoch", static_cast<double>(epoch.epoch + 1));
  add_timing(epoch.timing, scalars);
  return scalars;
}

void MatrixRows::add(const events::TableRow& row) {
  if (row.epoch != epoch_) rows_.clear();
  epoch_ = row.epoch;
  rows_[row.row] = row.counts;
}

bool MatrixRows::is_whole() const {
  const std::size_t side = rows_.size();
  return side > 0 && side <= kMostPictureClasses &&
         rows_.rbegin()->first + 1 == std::ssize(rows_) &&
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

std::unique_ptr<Sink> make_tensorboard_sink(TensorboardOptions options) {
  return std::make_unique<TensorboardSink>(std::move(options));
}

std::filesystem::path write_worst_pictures(const std::filesystem::path& folder,
                                           const std::string& host, Moment moment,
                                           const std::vector<WorstSample>& samples) {
  ENSURE(config, std::ranges::any_of(samples, [](const auto& one) { return !one.png.empty(); }),
         "there are no pictures of the worst predictions\nhint: use --worst for a run on images "
         "whose data set still exists");
  make_folder(folder);
  tensorboard::EventFile file(tensorboard::next_file(folder, moment.wall_time, host),
                              moment.wall_time);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const WorstSample& sample = samples[i];
    if (sample.png.empty()) continue;
    const std::string tag = fmt::format("worst_predictions/{:02} label {} predicted {}", i + 1,
                                        printable(sample.label), printable(sample.predicted));
    file.append(tensorboard::image_event(moment, tag, picture_of_png(sample.png)));
  }
  file.sync();
  return file.path();
}

}  // namespace trainctl::report
