#include "report/sinks/mlflow_sink.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "report/sinks/tensorboard_sink.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace trainctl::report {
namespace {

using mlflow::Metric;
using Seconds = std::chrono::duration<double>;

constexpr const char* kIdFile = "mlflow.json";
constexpr std::uint64_t kMostIdBytes = 64 << 10;
constexpr std::uint64_t kMostPageBytes = 64 << 20;

std::int64_t milliseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1000); }

/// Returns the id in mlflow.json; empty if the run has not been created on this server.
std::string stored_id(const MlflowOptions& options) {
  const auto file = options.run_dir / kIdFile;
  if (!is_file(file)) return {};
  const Json stored = parse_json(read_file(file, kMostIdBytes, ReadFailure::resource));
  const bool is_ours = stored.is_object() && stored.value("tracking_uri", "") == options.uri;
  return is_ours ? stored.value("run_id", "") : "";
}

/// Sends the values and tasks of one run from a separate thread, in order: first tasks, metrics,
/// last tasks.
class MlflowSender {
 public:
  using Task = std::function<void(mlflow::Client&, const mlflow::Run&)>;

  /// `options` must outlive this object.
  MlflowSender(const MlflowOptions& options, std::deque<Task> first)
      : options_(options), first_(std::move(first)) {}

  void start() {
    if (thread_.joinable()) return;
    thread_ = std::jthread([this](const std::stop_token& token) { run(token); });
  }

  void add(Metric metric) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    waiting_.push_back(std::move(metric));
    for (; waiting_.size() > options_.most_waiting; ++unsent_) waiting_.pop_front();
    if (waiting_.size() >= mlflow::kMostMetrics) wake_.notify_one();
  }

  /// Sends the rest and the last tasks, and then ends.
  void close(std::deque<Task> last) {
    const std::lock_guard lock(mutex_);
    last_ = std::move(last);
    is_closing_ = true;
    wake_.notify_one();
  }

  /// Waits until everything is sent, and at most `seconds`. Returns whether the thread has ended.
  bool wait_for(double seconds) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, Seconds(seconds), [this] { return is_over_; });
  }

  /// Stops sending, and reports what was not sent.
  void stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
    unsent_ += waiting_.size() + sending_.size();
    const bool is_complete = first_.empty() && last_.empty();
    if (is_refused_ || (unsent_ == 0 && is_complete)) return;
    report(fmt::format("the logger mlflow could not send {} value{} of metrics to {}{}",
                       with_thousands(static_cast<long long>(unsent_)), plural(unsent_),
                       options_.uri,
                       is_complete ? "" : ", and the status of the run there is not up to date"));
  }

  std::vector<std::string> take_news() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
  }

  /// Adds a warning, unless it was given before.
  void report(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (reported_.insert(text).second) news_.push_back(text);
  }

 private:
  void run(const std::stop_token& token) {
    try {
      mlflow::Client client(
          options_.uri, [&](const mlflow::Call& call) { return options_.transport(call, token); });
      send_all(client, token);
    } catch (const std::exception& error) {
      is_refused_ = true;
      report(fmt::format("the logger mlflow sends nothing more to {}: {}", options_.uri,
                         one_line(error.what())));
    }
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    ended_.notify_all();
  }

  void send_all(mlflow::Client& client, const std::stop_token& token) {
    double pause = 0;
    while (await_work(token, pause)) {
      try {
        send_next(client);
        if (std::exchange(pause, 0) > 0)
          report(fmt::format("the MLflow server {} accepts data again", options_.uri));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::resource) throw;
        if (token.stop_requested()) return;
        report_failure(error);
        // After the end of the run, a server that has failed twice in a row is not tried again.
        if (pause > 0 && is_closing()) return;
        pause = std::clamp(2 * pause, options_.first_pause_s, options_.longest_pause_s);
      }
    }
  }

  // Only the first failure, because a server can fail often during a long run.
  void report_failure(const Error& error) {
    if (std::exchange(has_failed_, true)) return;
    report(fmt::format(
        "the MLflow server {} does not accept data ({}); the run continues, and up to {} values "
        "wait in memory",
        options_.uri, one_line(error.what()),
        with_thousands(static_cast<long long>(options_.most_waiting))));
  }

  /// Waits for the time `pause`, unless the run ends meanwhile, and then for work. Returns false
  /// when everything is sent.
  bool await_work(const std::stop_token& token, double pause) {
    std::unique_lock lock(mutex_);
    const bool was_closing = is_closing_;
    if (pause > 0)
      wake_.wait_for(lock, token, Seconds(pause), [&] { return is_closing_ != was_closing; });
    const auto is_urgent = [this] {
      return !run_ || !first_.empty() || !sending_.empty() || is_closing_ ||
             waiting_.size() >= mlflow::kMostMetrics;
    };
    while (!token.stop_requested()) {
      const bool now = wake_.wait_for(lock, token, Seconds(options_.send_every_s), is_urgent);
      if (now || !waiting_.empty()) break;
    }
    if (token.stop_requested()) return false;
    const bool is_done = first_.empty() && sending_.empty() && waiting_.empty() && last_.empty();
    return !is_closing_ || !run_ || !is_done;
  }

  void send_next(mlflow::Client& client) {
    if (!run_) return open(client);
    if (!first_.empty()) return perform(first_, client);
    if (sending_.empty()) take_batch();
    if (sending_.empty()) return perform(last_, client);
    attempt(sending_.size(), [&] { client.log(*run_, sending_, {}, {}); });
    sending_.clear();
  }

  void open(mlflow::Client& client) {
    const std::string id = stored_id(options_);
    if (!id.empty()) {
      run_ = client.reopen(id);
      if (!run_)
        report(
            fmt::format("the MLflow run {} of this folder does not exist on {}: a new run is "
                        "created",
                        id, options_.uri));
    }
    if (run_) return;
    run_ = client.create(options_.run);
    const Json stored{{"tracking_uri", options_.uri},
                      {"experiment_id", run_->experiment_id},
                      {"run_id", run_->id}};
    try {
      write_atomically(options_.run_dir / kIdFile, to_pretty(stored) + "\n");
    } catch (const Error& error) {
      report(fmt::format("a resumed run will be a new run in MLflow: {}", error.what()));
    }
  }

  // A task that the server refuses is not repeated.
  void perform(std::deque<Task>& tasks, mlflow::Client& client) {
    if (tasks.empty()) return;
    attempt(0, [&] { tasks.front()(client, *run_); });
    tasks.pop_front();
  }

  template <class Body>
  void attempt(std::size_t values, const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::config) throw;
      report(fmt::format("the MLflow server {} refuses data: {}", options_.uri,
                         one_line(error.what())));
      const std::lock_guard lock(mutex_);
      unsent_ += values;
    }
  }

  void take_batch() {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), mlflow::kMostMetrics));
    sending_.assign(waiting_.begin(), waiting_.begin() + count);
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  }

  bool is_closing() {
    const std::lock_guard lock(mutex_);
    return is_closing_;
  }

  const MlflowOptions& options_;
  // Only the thread uses these until it has ended.
  std::optional<mlflow::Run> run_;
  std::deque<Task> first_;
  std::vector<Metric> sending_;
  bool has_failed_ = false;
  bool is_refused_ = false;

  std::mutex mutex_;  // protects the following members
  std::condition_variable_any wake_;
  std::condition_variable ended_;
  std::deque<Metric> waiting_;
  std::deque<Task> last_;  // not changed after close()
  bool is_closing_ = false;
  bool is_over_ = false;
  std::size_t unsent_ = 0;
  std::vector<std::string> news_;
  std::set<std::string> reported_;

  std::jthread thread_;  // the last member, so that it ends first
};

class MlflowSink final : public Sink {
 public:
  explicit MlflowSink(MlflowOptions options)
      : options_(std::move(options)), sender_(options_, first_tasks(options_)) {}

  void on_event(int rank, const events::Event& event) override {
    if (rank != 0) return;
    if (const auto* step = std::get_if<events::StepLogged>(&event)) add(*step);
    if (const auto* norms = std::get_if<events::LayerNorms>(&event)) add(*norms);
    if (const auto* validated = std::get_if<events::Validated>(&event)) add(*validated);
    if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) add(*epoch);
  }
  // The thread starts here and not in the constructor, because the program may create a process
  // for the weights before the first tick, which is only safe without other threads.
  void on_tick(double /*now*/) override { sender_.start(); }
  void close() override {}

  void on_end(const Json& result) override {
    sender_.start();
    sender_.close(last_tasks(result));
    is_stopped_ = asks_to_stop();
    const double limit = is_stopped_ ? std::min(options_.stop_after_s, options_.stopped_after_s)
                                     : options_.stop_after_s;
    deadline_ = options_.now() + limit;
  }

  void finish() override {
    constexpr double kLook = 0.05;  // seconds between two looks at the signals
    const auto is_cut = [this] { return !is_stopped_ && asks_to_stop(); };
    while (!sender_.wait_for(std::min(kLook, std::max(0.0, deadline_ - options_.now())))) {
      if (options_.now() >= deadline_ || is_cut()) break;
    }
    sender_.stop();
  }

  std::optional<std::string> take_warning() override {
    const std::vector<std::string> news = sender_.take_news();
    if (news.empty()) return std::nullopt;
    return join(news, "; ");
  }

 private:
  static std::deque<MlflowSender::Task> first_tasks(const MlflowOptions& options) {
    std::deque<MlflowSender::Task> tasks;
    for (std::size_t from = 0; from < options.params.size(); from += mlflow::kMostPairs) {
      tasks.emplace_back([&options, from](mlflow::Client& client, const mlflow::Run& run) {
        log_params(options, from, client, run);
      });
    }
    if (options.log_artifacts)
      tasks.emplace_back([&options](mlflow::Client& client, const mlflow::Run& run) {
        client.upload(run, "config.resolved.yaml", options.config);
      });
    return tasks;
  }

  // MLflow refuses a request that would change a parameter, so a resumed run only adds new ones.
  static void log_params(const MlflowOptions& options, std::size_t from, mlflow::Client& client,
                         const mlflow::Run& run) {
    mlflow::Pairs added;
    const std::size_t end = std::min(from + mlflow::kMostPairs, options.params.size());
    for (std::size_t i = from; i < end; ++i) {
      if (!run.params.contains(options.params[i].first)) added.push_back(options.params[i]);
    }
    if (!added.empty()) client.log(run, {}, added, {});
  }

  /// Returns the uploads of the results and the status; none if a restart follows. The next attempt
  /// after a divergence is not a restart but another run on the server, because mlflow.json has
  /// moved with the files of this one.
  std::deque<MlflowSender::Task> last_tasks(const Json& result) const {
    std::deque<MlflowSender::Task> tasks;
    const bool has_diverged =
        result.value("exit_code", Json()) == static_cast<int>(ErrorKind::diverged);
    if (result.value("will_restart", false) && !has_diverged) return tasks;
    const auto upload = [&tasks](std::string name, std::string bytes) {
      tasks.emplace_back(
          [name = std::move(name), bytes = std::move(bytes)](
              mlflow::Client& client, const mlflow::Run& run) { client.upload(run, name, bytes); });
    };
    tasks.emplace_back([verdict = result.value("verdict", "unknown")](mlflow::Client& client,
                                                                      const mlflow::Run& run) {
      client.log(run, {}, {}, {{"trainctl.verdict", verdict}});
    });
    if (options_.log_artifacts) {
      upload("result.json", to_pretty(result) + "\n");
      const auto page = options_.run_dir / "report.html";
      std::error_code unknown;  // the size is then the largest number
      if (is_file(page) && std::filesystem::file_size(page, unknown) <= kMostPageBytes)
        upload("report.html", read_file(page, kMostPageBytes, ReadFailure::resource));
    }
    tasks.emplace_back(
        [status = status_of(result), end = milliseconds(options_.wall_time())](
            mlflow::Client& client, const mlflow::Run& run) { client.finish(run, status, end); });
    return tasks;
  }

  static std::string status_of(const Json& result) {
    const auto found = result.find("exit_code");
    if (found == result.end() || !found->is_number_integer()) return "FAILED";
    switch (static_cast<ErrorKind>(found->get<int>())) {
      case ErrorKind::stopped:
      case ErrorKind::interrupted:
      case ErrorKind::terminated: return "KILLED";
      default: return *found == 0 ? "FINISHED" : "FAILED";
    }
  }

  template <class Event>
  void add(const Event& event) {
    const std::int64_t time = milliseconds(options_.wall_time());
    for (const auto& [tag, value] : scalars_of(event))
      sender_.add({mlflow::key_of(tag), value, time, event.global_step});
  }

  [[nodiscard]] bool asks_to_stop() const {
    return options_.is_stop_requested && options_.is_stop_requested();
  }

  MlflowOptions options_;
  MlflowSender sender_;
  bool is_stopped_ = false;  // a stop was requested before the end
  double deadline_ = 0;
};

}  // namespace

std::unique_ptr<Sink> make_mlflow_sink(MlflowOptions options) {
  return std::make_unique<MlflowSink>(std::move(options));
}

}  // namespace trainctl::report
