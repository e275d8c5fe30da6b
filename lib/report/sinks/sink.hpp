#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/text/progress_bar.hpp"

#include <deque>
#include <filesystem>
#include <memory>
#include <set>

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

/// The line of a logged step in metrics.jsonl: {"type": "step", "epoch", "step", "elapsed_s", "lr",
/// "train/loss"}, and the norms that are known.
Json step_line(const events::StepLogged& step);

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

/// Lines on their way into files. One that the disk does not take, as it is full, waits with all
/// behind it, in order, and is tried again with each further one and a few times a second: a run is
/// worth more than its history. Up to 16,384 wait; then the oldest are lost, and that is told.
class Backlog {
 public:
  /// One line into one file: all of it or, where it throws Error(resource), nothing.
  using Write = std::function<void()>;

  /// Writes it now or later. Throws what `write` throws, but for Error(resource).
  void add(Write write);
  /// Tries again; `now` in seconds of one steady clock.
  void on_tick(double now);
  /// Tries for the last time. Throws Error(resource) where something still waits.
  void close();
  /// What people should know: that lines wait, at once and then after 5 s, 10 s ... 10 minutes, and
  /// that they wait no more. Nothing: no news.
  std::optional<std::string> news();

 private:
  void drain();

  std::deque<Write> waiting_;
  std::string failure_;  // of the first of them
  std::size_t lost_ = 0;
  double now_ = 0;
  bool is_told_ = false;
  double pause_ = 0;
  double next_told_ = 0;
};

struct ExecOptions {
  std::vector<std::string> command;
  std::set<std::string> on;          // "start", "step", "epoch", "warning", "end", "failed"
  double stop_after_s = 10;          // how long it may take to end after its input has
  double stopped_after_s = 2;        // the same at most, where somebody stops the run
  double kill_after_s = 2;           // and after SIGTERM
  std::filesystem::path log;         // gets its stdout and stderr
  Json start;                        // what the line `start` has besides its type
  std::size_t most_bytes = 4 << 20;  // that wait for it
  std::function<double()> now;       // seconds of a steady clock
  /// Whether somebody asked trainctl to stop; empty: nobody does.
  std::function<bool()> stop_is_asked = {};
};

/// Starts a command and writes a line of JSON to its standard input for each thing that happens:
/// {"type": "start"|"step"|"epoch"|"warning"|"end"|"failed", ...}. The run never waits for it:
/// lines wait in memory, the oldest are dropped beyond a bound, and their number is reported at the
/// end. A command that ends early is reported once and not started again. finish() waits for it
/// after its input is closed, then stops its group by SIGTERM and SIGKILL: at once where a stop is
/// asked for. Throws Error(config) where it cannot be started.
std::unique_ptr<Sink> make_exec_sink(ExecOptions options);

}  // namespace trainctl::report
