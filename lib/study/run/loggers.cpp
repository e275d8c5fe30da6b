#include "study/run/loggers.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine/environment.hpp"
#include "config/schema/dump.hpp"
#include "data/core/run_control.hpp"
#include "data/remote/http_client.hpp"
#include "launch/process/signals.hpp"
#include "report/html/html.hpp"
#include "report/record/run_files.hpp"
#include "report/sinks/mlflow_sink.hpp"
#include "report/sinks/prometheus_sink.hpp"
#include "spec/checks/checks.hpp"
#include "spec/options/logger.hpp"

#include <bit>
#include <chrono>

namespace trainctl::study {
namespace {

using report::tensorboard::HParam;
using report::tensorboard::HParams;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Json config_of(const spec::Loaded& loaded) { return config::to_json(spec::resolved_tree(loaded)); }

std::unique_ptr<report::Sink> make_tensorboard(const config::Stage& stage,
                                               const LoggerContext& context) {
  const auto& options = stage.as<spec::logger::Tensorboard>();
  report::TensorboardOptions made;
  made.folder = context.run_dir / "tensorboard";
  made.host = context.host;
  made.wall_time = wall_time;
  made.histograms_every_n_epochs = options.histograms_every_n_epochs;
  if (options.images) made.picture = context.picture;
  made.config = config::dump(spec::resolved_tree(context.loaded));
  made.hparams = hparams_of(context.loaded);
  made.hparams.metrics = context.console.metrics;
  return report::make_tensorboard_sink(std::move(made));
}

std::unique_ptr<report::Sink> make_prometheus(const config::Stage& stage,
                                              const LoggerContext& context) {
  const auto& options = stage.as<spec::logger::Prometheus>();
  return report::make_prometheus_sink(
      {.file = options.file.value_or(context.run_dir / "trainctl.prom"),
       .every_s = options.every_s,
       .run = context.loaded.experiment.name,
       .host = context.host,
       .info = {{"run_dir", context.run_dir.string()}, {"version", context.version}},
       .restarts = context.restarts,
       .wall_time = wall_time});
}

std::string program_of(const spec::logger::Exec& options) {
  return fs::path(options.command.front()).filename().string();
}

/// Returns exec_PROGRAM.log, and exec_PROGRAM_2.log and so on for further commands of the same
/// program.
std::string log_name(const spec::logger::Exec& options, const LoggerContext& context) {
  const std::string program = program_of(options);
  int number = 1;
  for (const config::Stage& stage : context.loaded.experiment.loggers) {
    if (stage.type != "exec") continue;
    const auto& other = stage.as<spec::logger::Exec>();
    if (&other == &options) break;
    number += program_of(other) == program ? 1 : 0;
  }
  return number == 1 ? fmt::format("exec_{}.log", program)
                     : fmt::format("exec_{}_{}.log", program, number);
}

std::unique_ptr<report::Sink> make_exec(const config::Stage& stage, const LoggerContext& context) {
  const auto& options = stage.as<spec::logger::Exec>();
  report::ExecOptions made;
  made.command = options.command;
  for (const spec::logger::ExecEvent event : options.events) made.on.insert(enum_name(event));
  made.stop_after_s = options.stop_after_s;
  make_folder(context.run_dir / "logs");
  made.log = context.run_dir / "logs" / log_name(options, context);
  made.start = {{"schema", "trainctl.events/2"},       {"name", context.loaded.experiment.name},
                {"run_dir", context.run_dir.string()}, {"host", context.host},
                {"version", context.version},          {"started_at", utc_timestamp()},
                {"restarts", context.restarts},        {"config", config_of(context.loaded)}};
  made.now = [] { return steady_clock().now(); };
  made.is_stop_requested = launch::is_stop_requested;
  return report::make_exec_sink(std::move(made));
}

/// Returns the Git commit of the experiment file, which the manifest has; empty without one.
std::string git_commit(const fs::path& run_dir) {
  const fs::path file = run_dir / "manifest.json";
  if (!is_file(file)) return {};
  const Json git = report::read_document(file).value("git", Json());
  return git.is_object() ? git.value("commit", "") : "";
}

/// Returns the header that authenticates at a tracking server, from the variables that MLflow's own
/// clients read; empty without them.
std::string mlflow_authorization() {
  const std::string token = environment_value("MLFLOW_TRACKING_TOKEN");
  if (!token.empty()) return "Authorization: Bearer " + token;
  const std::string user = environment_value("MLFLOW_TRACKING_USERNAME");
  if (user.empty()) return {};
  return "Authorization: Basic " +
         report::base64(user + ":" + environment_value("MLFLOW_TRACKING_PASSWORD"));
}

/// Sends requests through libcurl, which is loaded by the first of them.
class CurlTransport {
 public:
  report::mlflow::Reply operator()(const report::mlflow::Call& call, const std::stop_token& token) {
    constexpr double kTimeout = 30;
    constexpr std::uint64_t kMostReplyBytes = 16 << 20;
    if (!client_) client_ = data::curl_client();
    const data::StopScope scope(token);
    data::HttpRequest request{
        .url = call.url,
        .range = {},
        .signing = {},
        .timeout_s = kTimeout,
        .max_body_bytes = kMostReplyBytes,
        .method = call.method,
        .body = call.body,
        .headers = {"Content-Type: " + std::string(call.method == "PUT" ? "application/octet-stream"
                                                                        : "application/json")}};
    if (!authorization_.empty()) request.headers.push_back(authorization_);
    data::HttpResponse response = client_->perform(request);
    const int status = response.failure.empty() ? response.status : 0;
    return {status, std::move(response.body), std::move(response.failure)};
  }

 private:
  std::string authorization_ = mlflow_authorization();
  std::shared_ptr<data::HttpClient> client_;
};

report::mlflow::NewRun new_mlflow_run(const spec::logger::Mlflow& options,
                                      const LoggerContext& context) {
  const auto first_of = [](std::initializer_list<std::string> values) {
    const auto* found = std::ranges::find_if(values, [](const auto& one) { return !one.empty(); });
    return found == values.end() ? std::string() : *found;
  };
  const std::string user =
      first_of({environment_value("LOGNAME"), environment_value("USER"), "unknown"});
  report::mlflow::NewRun run{
      .experiment =
          first_of({options.experiment_name.value_or(""),
                    environment_value("MLFLOW_EXPERIMENT_NAME"), context.loaded.experiment.name}),
      .name = first_of({options.run_name.value_or(""), environment_value("MLFLOW_RUN_NAME"),
                        context.run_dir.filename().string()}),
      .user = user,
      .start_ms = static_cast<std::int64_t>(wall_time() * 1000),
      .tags = {{"mlflow.user", user},
               {"mlflow.source.type", "LOCAL"},
               {"trainctl.version", context.version},
               {"trainctl.host", context.host},
               {"trainctl.run_dir", context.run_dir.string()}}};
  if (!context.loaded.files.empty())
    run.tags.emplace_back("mlflow.source.name", context.loaded.files.front().path.string());
  if (const std::string commit = git_commit(context.run_dir); !commit.empty())
    run.tags.emplace_back("mlflow.source.git.commit", commit);
  run.tags.insert(run.tags.end(), options.tags.begin(), options.tags.end());
  return run;
}

std::unique_ptr<report::Sink> make_mlflow(const config::Stage& stage,
                                          const LoggerContext& context) {
  const auto& options = stage.as<spec::logger::Mlflow>();
  report::MlflowOptions made;
  made.uri = spec::mlflow_uri(options.tracking_uri);
  made.transport = CurlTransport();
  made.run = new_mlflow_run(options, context);
  made.params = report::mlflow::flattened(config_of(context.loaded));
  made.run_dir = context.run_dir;
  made.config = config::dump(spec::resolved_tree(context.loaded));
  made.log_artifacts = options.log_artifacts;
  made.stop_after_s = options.stop_after_s;
  made.wall_time = wall_time;
  made.now = [] { return steady_clock().now(); };
  made.is_stop_requested = launch::is_stop_requested;
  return report::make_mlflow_sink(std::move(made));
}

std::unique_ptr<report::Sink> make_console(const config::Stage& /*stage*/,
                                           const LoggerContext& context) {
  return report::make_console_sink(context.console);
}

std::unique_ptr<report::Sink> make_csv(const config::Stage& /*stage*/,
                                       const LoggerContext& context) {
  return report::make_csv_sink(context.run_dir, context.console.metrics);
}

std::unique_ptr<report::Sink> make_jsonl(const config::Stage& /*stage*/,
                                         const LoggerContext& context) {
  return report::make_jsonl_sink(context.run_dir);
}

std::unique_ptr<report::Sink> make_html(const config::Stage& /*stage*/,
                                        const LoggerContext& context) {
  return report::make_html_sink(context.run_dir, context.class_names);
}

std::unique_ptr<report::Sink> make_sink(const config::Stage& stage, const LoggerContext& context) {
#define STAGE(kind, name, ...) \
  if (stage.type == #name) return make_##name(stage, context);
#include "study/run/loggers.def"
#undef STAGE
  throw Error(ErrorKind::unexpected, "there is no logger called '" + stage.type + "'");
}

void add_values(const Json& value, const std::string& path, HParams& params) {
  if (value.is_object()) {
    for (const auto& [key, below] : value.items()) add_values(below, path + "." + key, params);
  } else if (value.is_boolean()) {
    params.values.emplace_back(path, HParam(value.get<bool>()));
  } else if (value.is_number()) {
    params.values.emplace_back(path, HParam(value.get<double>()));
  } else if (value.is_string()) {
    params.values.emplace_back(path, HParam(value.get<std::string>()));
  } else if (value.is_array()) {
    params.values.emplace_back(path, HParam(to_line(value)));
  }
}

/// Returns the group of a run. TensorBoard shows the runs of a group as one row, with the values of
/// the first run.
std::string group_of(const HParams& params) {
  Hasher hasher;
  for (const auto& [name, value] : params.values) {
    hasher.add(name);
    hasher.add(std::uint64_t{value.index()});
    if (const auto* number = std::get_if<double>(&value)) {
      hasher.add(std::bit_cast<std::uint64_t>(*number));
    } else if (const auto* truth = std::get_if<bool>(&value)) {
      hasher.add(std::uint64_t{*truth});
    } else {
      hasher.add(std::get<std::string>(value));
    }
  }
  return hasher.hex();
}

}  // namespace

HParams hparams_of(const spec::Loaded& loaded) {
  constexpr std::array kPaths{"/seed",
                              "/loader/batch_size",
                              "/model",
                              "/loss",
                              "/optimizer",
                              "/scheduler",
                              "/trainer/precision",
                              "/trainer/max_epochs",
                              "/trainer/max_steps",
                              "/trainer/accumulate_grad_batches",
                              "/trainer/gradient_clip_val"};
  const Json config = config_of(loaded);
  HParams params;
  for (const std::string path : kPaths) {
    const Json::json_pointer pointer(path);
    std::string key = path.substr(1);
    std::ranges::replace(key, '/', '.');
    if (config.contains(pointer)) add_values(config.at(pointer), key, params);
  }
  params.group = group_of(params);
  return params;
}

Sinks make_loggers(const LoggerContext& context) {
  Sinks sinks;
  // mlflow comes last, because it uploads the page that html has written.
  for (const bool is_mlflow : {false, true}) {
    for (const config::Stage& stage : context.loaded.experiment.loggers) {
      if ((stage.type == "mlflow") == is_mlflow) sinks.push_back(make_sink(stage, context));
    }
  }
  return sinks;
}

}  // namespace trainctl::study
