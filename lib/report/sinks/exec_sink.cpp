#include "base/error.hpp"
#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/format.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>

namespace trainctl::report {
namespace {

/// Blocks SIGPIPE in this thread and discards a pending one, because a write to a command that has
/// exited would kill this process. Other threads are not affected.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending{};
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGPIPE);
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec none{};
    if (!was_pending_) ::sigtimedwait(&set_, nullptr, &none);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t set_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

std::string ending_text(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return name == nullptr ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("SIG{}", name);
}

/// Starts a command with default signal handling and in its own process group, which Ctrl-C does
/// not reach, so that it can read the end. Returns 0 or an errno value.
int spawn(std::vector<std::string> command, int input, int output, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  sigset_t none{};
  sigset_t all{};
  ::sigemptyset(&none);
  ::sigfillset(&all);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int failure = ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return failure;
}

/// A command that reads lines, in a separate process group. Only the destructor blocks.
class ListeningCommand {
 public:
  /// Appends its stdout and stderr to `log`. Throws Error(config) when it cannot be started,
  /// Error(resource) when the log cannot be written.
  ListeningCommand(const std::vector<std::string>& command, const std::filesystem::path& log) {
    ASSERT(!command.empty());
    std::array<int, 2> ends{};
    ENSURE(resource, ::pipe2(ends.data(), O_CLOEXEC) == 0, "cannot create a pipe: {}",
           std::strerror(errno));
    const Fd reader(ends[0]);
    Fd writer(ends[1]);
    ::fcntl(writer.get(), F_SETFL, O_NONBLOCK);
    const Fd output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    ENSURE(resource, output.valid(), "cannot write {}: {}", log.string(), std::strerror(errno));
    const int failure = spawn(command, reader.get(), output.get(), pid_);
    if (failure != 0) pid_ = -1;
    ENSURE(config, failure == 0, "the logger exec cannot start '{}': {}",
           printable(command.front()), std::strerror(failure));
    input_ = std::move(writer);
  }
  /// Kills the command if it is still running.
  ~ListeningCommand() {
    if (pid_ < 0 || ending()) return;
    signal_group(SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ListeningCommand(const ListeningCommand&) = delete;
  ListeningCommand& operator=(const ListeningCommand&) = delete;

  enum class Taken { all, some, broken };
  /// Writes as much of `bytes` as the pipe accepts now, and removes it from `bytes`.
  Taken take(std::string& bytes) {
    if (!input_.valid()) return Taken::broken;
    const WithoutSigpipe guard;
    while (!bytes.empty()) {
      const ssize_t count = ::write(input_.get(), bytes.data(), bytes.size());
      if (count >= 0) {
        bytes.erase(0, static_cast<std::size_t>(count));
      } else if (errno == EAGAIN) {
        return Taken::some;
      } else if (errno != EINTR) {
        input_.reset();
        return Taken::broken;
      }
    }
    return Taken::all;
  }
  void close_input() { input_.reset(); }

  /// Returns how the command ended, "exit code 3" or "SIGKILL"; nullopt while it is running.
  std::optional<std::string> ending() {
    if (ending_) return ending_;
    int status = 0;
    const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
    if (reaped == pid_) {
      ended_well_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      ending_ = ending_text(status);
    } else if (reaped < 0 && errno == ECHILD) {
      ending_ = "unknown exit status";
    }
    return ending_;
  }
  /// Returns whether the command has exited by itself with code 0.
  [[nodiscard]] bool ended_well() const { return ended_well_; }
  void signal_group(int signal) const {
    if (pid_ > 0) ::kill(-pid_, signal);
  }

 private:
  Fd input_;
  pid_t pid_ = -1;
  std::optional<std::string> ending_;
  bool ended_well_ = false;
};

constexpr auto kPause = std::chrono::milliseconds(10);
constexpr std::size_t kTailLines = 3;

/// Returns the last lines of a log, joined to one line.
std::string tail_of(const std::filesystem::path& log) {
  constexpr std::streamoff kBytes = 2048;
  std::ifstream in(log, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : 0;
  in.seekg(std::max<std::streamoff>(0, size - kBytes));
  std::deque<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    lines.push_back(printable(line));
    if (lines.size() > kTailLines) lines.pop_front();
  }
  return join(std::vector<std::string>(lines.begin(), lines.end()), " | ");
}

Json epoch_line(const events::EpochEnded& epoch) {
  Json line{{"type", "epoch"},
            {"epoch", epoch.epoch + 1},
            {"step", epoch.global_step},
            {"lr", json_number(epoch.lr)},
            {"wall_s", json_number(epoch.timing.wall_s)},
            {"samples_per_s", json_number(epoch.timing.samples_per_s)}};
  for (const auto& [name, value] : epoch.metrics) line[name] = json_number(value);
  return line;
}

class ExecSink final : public Sink {
 public:
  explicit ExecSink(ExecOptions options)
      : options_(std::move(options)), command_(options_.command, options_.log) {
    Json start{{"type", "start"}};
    start.update(options_.start);
    add("start", start);
  }

  void on_event(int rank, const events::Event& event) override {
    if (const auto* warning = std::get_if<events::Warning>(&event))
      add("warning", {{"type", "warning"}, {"rank", rank}, {"message", warning->message}});
    if (rank != 0) return;
    if (const auto* step = std::get_if<events::StepLogged>(&event)) add("step", step_line(*step));
    if (const auto* validated = std::get_if<events::Validated>(&event))
      add("validation", validation_line(*validated));
    if (const auto* epoch = std::get_if<events::EpochEnded>(&event))
      add("epoch", epoch_line(*epoch));
  }

  void on_tick(double /*now*/) override { poll(); }
  void close() override {}

  void on_end(const Json& result) override {
    const auto code = result.find("exit_code");
    const bool well = code != result.end() && code->is_number_integer() && *code == 0;
    const char* type = well ? "end" : "failed";
    add(type, {{"type", type}, {"result", result}});
    is_stopped_ = asks_to_stop();
    patience_ = options_.stop_after_s;
    if (is_stopped_) patience_ = std::min(patience_, options_.stopped_after_s);
    deadline_ = options_.now() + patience_;
    if (lines_.empty()) command_.close_input();
  }

  void finish() override {
    if (!is_over_) stop();
    const std::size_t unread = lines_.size() + dropped_;
    if (unread > 0)
      news_.push_back(fmt::format("the command '{}' of the logger exec did not read {} line{}",
                                  printable(options_.command.front()), unread, plural(unread)));
  }

  std::optional<std::string> take_warning() override {
    if (news_.empty()) return std::nullopt;
    const std::string text = join(std::exchange(news_, {}), "; ");
    return text;
  }

 private:
  void add(const std::string& type, const Json& line) {
    if (is_over_ || !options_.on.contains(type)) return;
    lines_.push_back(to_line(line) + "\n");
    bytes_ += lines_.back().size();
    while (bytes_ > options_.most_bytes && drop()) {
    }
    pump();
  }

  // Drops the oldest line that is not partially written, but never the newest. Returns false if
  // there is no such line.
  bool drop() {
    const auto oldest = lines_.begin() + (is_begun_ ? 1 : 0);
    if (oldest == lines_.end() || std::next(oldest) == lines_.end()) return false;
    bytes_ -= oldest->size();
    lines_.erase(oldest);
    ++dropped_;
    return true;
  }

  void poll() {
    if (is_over_) return;
    if (const auto ending = command_.ending()) {
      is_over_ = true;
      report_end("exited before the run ended", *ending);
    } else {
      pump();
    }
  }

  void pump() {
    while (!lines_.empty()) {
      const std::size_t before = lines_.front().size();
      const auto taken = command_.take(lines_.front());
      bytes_ -= before - lines_.front().size();
      is_begun_ =
          taken == ListeningCommand::Taken::some && (is_begun_ || lines_.front().size() < before);
      if (taken != ListeningCommand::Taken::all) return;
      lines_.pop_front();
    }
  }

  void report_end(const std::string& what, const std::string& ending) {
    const std::string tail = tail_of(options_.log);
    news_.push_back(fmt::format("the command '{}' of the logger exec {} ({}){}{}",
                                printable(options_.command.front()), what, ending,
                                tail.empty() ? "" : ": ", tail));
  }

  [[nodiscard]] bool asks_to_stop() const {
    return options_.is_stop_requested && options_.is_stop_requested();
  }

  /// Waits until `is_done` or `deadline`; returns whether it is done.
  template <class Done>
  bool wait(double deadline, const Done& is_done) {
    while (!is_done()) {
      if (options_.now() >= deadline) return false;
      std::this_thread::sleep_for(kPause);
    }
    return true;
  }

  void stop() {
    is_over_ = true;
    // An earlier stop request has already shortened the deadline.
    const auto is_cut = [this] { return !is_stopped_ && asks_to_stop(); };
    wait(deadline_, [&] {
      pump();
      return lines_.empty() || command_.ending() || is_cut();
    });
    command_.close_input();
    wait(deadline_, [&] { return command_.ending() || is_cut(); });
    if (!command_.ending()) {
      force();
    } else if (!command_.ended_well()) {
      report_end("failed", *command_.ending());
    }
  }

  void force() {
    const auto has_ended = [this] { return command_.ending().has_value(); };
    const bool in_time = options_.now() < deadline_;
    command_.signal_group(SIGTERM);
    const bool has_stopped = wait(options_.now() + options_.kill_after_s, has_ended);
    if (!has_stopped) command_.signal_group(SIGKILL);
    wait(options_.now() + options_.kill_after_s, has_ended);
    const std::string when = in_time ? "had not exited when trainctl was asked to stop"
                                     : "did not exit within " + human_duration(patience_);
    report_end(fmt::format("{}, and was {}", when, has_stopped ? "stopped" : "killed"),
               command_.ending().value_or("but it is still running"));
  }

  ExecOptions options_;
  ListeningCommand command_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  bool is_begun_ = false;  // the first line is partially written
  std::size_t dropped_ = 0;
  bool is_over_ = false;
  bool is_stopped_ = false;  // a stop was requested before the end
  double patience_ = 0;      // time to exit by itself, in seconds
  double deadline_ = 0;
  std::vector<std::string> news_;
};

}  // namespace

std::unique_ptr<Sink> make_exec_sink(ExecOptions options) {
  return std::make_unique<ExecSink>(std::move(options));
}

}  // namespace trainctl::report
