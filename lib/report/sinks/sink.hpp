#pragma once

#include "report/text/progress_bar.hpp"

#include <deque>
#include <filesystem>
#include <memory>
#include <set>

namespace trainctl::report {

/// A listener of one run. All calls come from one thread, in order of arrival.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_event(int rank, const events::Event& event) = 0;
  /// Called a few times per second; `now` is in seconds of one steady clock.
  virtual void on_tick(double now) = 0;
  /// Called after the last event. Throws Error(resource) when data could not be written, which
  /// becomes part of how the run ends.
  virtual void close() = 0;
  /// Called after close(), with result.json, once the ending of the run is known. Never throws for
  /// a full disk or the like; take_warning() reports that. `will_restart` in `result` is true if
  /// another start of the run follows.
  virtual void on_end(const Json& /*result*/) {}
  /// Called after on_end() of all listeners: waits for what the sink started, for a limited time.
  virtual void finish() {}
  /// Returns a warning for people since the last call; called after each event.
  virtual std::optional<std::string> take_warning() { return std::nullopt; }
};

/// Returns the line of a logged step in metrics.jsonl: {"type": "step", "epoch", "step",
/// "elapsed_s", "lr", "train/loss"}, and the known norms.
Json step_line(const events::StepLogged& step);

/// Returns the line of a validation within an epoch, or of the test after training: {"type":
/// "validation"|"test", "epoch", "step", metrics...}.
Json validation_line(const events::Validated& validated);

/// The options of the console: the epoch table is a result on stdout; the progress bar and warnings
/// go to stderr.
struct ConsoleOptions {
  Write results;   // stdout
  Write messages;  // stderr
  Style results_style;
  Style messages_style;
  ProgressMode progress = ProgressMode::none;
  std::vector<std::string> metrics;  // columns of the table; empty: those of the first epoch
  std::function<std::optional<std::string>()> take_notice = {};  // called by take_warning()
};
/// Returns the sink that prints the epoch table, the progress bar and warnings.
std::unique_ptr<Sink> make_console_sink(ConsoleOptions options);

/// Returns a sink for epochs.csv, timing.csv, validations.csv and test.csv of a run folder. Rows
/// are appended; they survive a crash of the process and, after the end of the epoch, a power
/// failure. A metric that was missing in the first row gets a column at the end, empty in earlier
/// rows. Rows that a full disk rejects wait in a Backlog, here and in metrics.jsonl: close() throws
/// Error(resource) if they still wait.
std::unique_ptr<Sink> make_csv_sink(const std::filesystem::path& run_dir,
                                    std::vector<std::string> metrics);

/// Returns a sink for metrics.jsonl of a run folder, with one line {"type": "step"|"epoch",
/// "epoch", "step", "elapsed_s", "lr", metrics...} per step or epoch, and a validation_line() per
/// validation within an epoch.
std::unique_ptr<Sink> make_jsonl_sink(const std::filesystem::path& run_dir);

/// Returns a sink for report.html of a run folder, written after each epoch, at least 30 s apart,
/// and at the end. A failed write is reported by take_warning() and has no other effect. Classes
/// without names are shown by number.
std::unique_ptr<Sink> make_html_sink(const std::filesystem::path& run_dir,
                                     std::vector<std::string> class_names = {});

/// Lines that wait to be written to files. If a full disk rejects a line, it waits with all later
/// lines, in order, and is retried with each new line and a few times per second, because a run is
/// worth more than its history. At most 16,384 lines wait; then the oldest are lost with a warning.
class Backlog {
 public:
  /// Writes one line to one file completely, or throws Error(resource) and writes nothing.
  using Write = std::function<void()>;

  /// Writes the line now or later. Throws what `write` throws, except Error(resource).
  void add(Write write);
  /// Retries; `now` is in seconds of one steady clock.
  void on_tick(double now);
  /// Tries for the last time. Throws Error(resource) when lines still wait.
  void close();
  /// Returns a warning that lines wait, immediately and then after 5 s, 10 s ... 10 minutes, and a
  /// notice when they no longer wait. Returns nullopt otherwise.
  std::optional<std::string> take_warning();

 private:
  void drain();

  std::deque<Write> waiting_;
  std::string failure_;  // of the first waiting line
  std::size_t lost_ = 0;
  double now_ = 0;
  bool is_reported_ = false;
  double pause_ = 0;
  double next_report_ = 0;
};

/// The command of make_exec_sink() and the limits on its time and memory.
struct ExecOptions {
  std::vector<std::string> command;
  std::set<std::string> on;          // "start", "step", "epoch", "warning", "end", "failed"
  double stop_after_s = 10;          // time limit to exit after its input was closed
  double stopped_after_s = 2;        // the same if the run is stopped by a signal
  double kill_after_s = 2;           // time limit after SIGTERM
  std::filesystem::path log;         // receives its stdout and stderr
  Json start;                        // additional fields of the `start` line
  std::size_t most_bytes = 4 << 20;  // limit of the waiting lines
  std::function<double()> now;       // in seconds of a steady clock
  /// Returns whether a stop of trainctl was requested; empty: never.
  std::function<bool()> is_stop_requested = {};
};

/// Starts a command and writes a JSON line to its standard input for each event: {"type":
/// "start"|"step"|"epoch"|"warning"|"end"|"failed", ...}. The run never waits for the command:
/// lines wait in memory, the oldest are dropped beyond `most_bytes`, and their number is reported
/// at the end. A command that exits early is reported once and not restarted. finish() closes its
/// input and waits, then stops its process group with SIGTERM and SIGKILL, immediately if a stop
/// was requested. Throws Error(config) when the command cannot be started.
std::unique_ptr<Sink> make_exec_sink(ExecOptions options);

}  // namespace trainctl::report
