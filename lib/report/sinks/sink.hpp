#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/text/progress_bar.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::report {

/// A listener of one run. Called on one thread, in the order of arrival.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_event(int rank, const events::Event& event) = 0;
  /// A few times a second; `now` in seconds of one steady clock.
  virtual void on_tick(double now) = 0;
  /// No event follows. Throws Error(resource) where what was told is not written: that is part of
  /// how the run ends.
  virtual void close() = 0;
  /// After close(), once it is known how the run ended: its result.json. Never throws for a full
  /// disk or the like; news() has it.
  /// `goes_on` is true in it where another start of the run follows.
  virtual void on_end(const Json& /*result*/) {}
  /// After on_end() of all listeners: waits for what it started, in bounded time.
  virtual void finish() {}
  /// What people should be warned of since the last call; asked after each event.
  virtual std::optional<std::string> news() { return std::nullopt; }
};

/// The epoch table (a result) and the bar and warnings (not results) go to two places.
struct ConsoleOptions {
  Write results;   // stdout
  Write messages;  // stderr
  Style results_style;
  Style messages_style;
  ProgressMode progress = ProgressMode::none;
  std::vector<std::string> metrics;  // columns of the table; empty: those of the first epoch
  std::function<std::optional<std::string>()> take_notice = {};  // asked by news()
};
std::unique_ptr<Sink> make_console_sink(ConsoleOptions options);

/// epochs.csv and timing.csv of a run folder. Rows are appended and survive the process and, once
/// the epoch is told, a power cut. A metric that was not there in the first row gets its column at
/// the end, empty in the rows above. What a full disk does not take waits in a Backlog, here and in
/// metrics.jsonl: close() throws Error(resource) where it waits still.
std::unique_ptr<Sink> make_csv_sink(const std::filesystem::path& run_dir,
                                    std::vector<std::string> metrics);

/// metrics.jsonl of a run folder: {"type": "step"|"epoch", "epoch", "step", "elapsed_s", "lr",
/// metrics...} a line.
std::unique_ptr<Sink> make_jsonl_sink(const std::filesystem::path& run_dir);

/// report.html of a run folder, after each epoch, 30 s apart at least, and at the end. What cannot
/// be written is told by news() and costs nothing else. Classes without names have their numbers.
std::unique_ptr<Sink> make_html_sink(const std::filesystem::path& run_dir,
                                     std::vector<std::string> class_names = {});

}  // namespace trainctl::report
