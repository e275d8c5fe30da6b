#include "study/run/manifest.hpp"

#include "base/clock.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>

namespace trainctl::study {
namespace {

constexpr double kGitTimeout = 1.0;
constexpr std::array kKeptNames{"CUDA_VISIBLE_DEVICES",
                                "OMP_NUM_THREADS",
                                "OMP_WAIT_POLICY",
                                "GOMP_SPINCOUNT",
                                "MKL_NUM_THREADS",
                                "GOMP_CPU_AFFINITY",
                                "MALLOC_CONF",
                                "LD_PRELOAD",
                                "TRAINCTL_DATA",
                                "TRAINCTL_TORCH_ROOT",
                                "SLURM_JOB_ID",
                                "SLURM_NNODES",
                                "PYTORCH_CUDA_ALLOC_CONF",
                                "GLIBC_TUNABLES",
                                "MIMALLOC_ALLOW_DECOMMIT"};

Json kept_environment() {
  Json kept = Json::object();
  for (const char* name : kKeptNames) {
    if (const char* value = std::getenv(name)) kept[name] = value;
  }
  return kept;
}

Json describe(const Machine& machine) {
  return {{"host", machine.host},
          {"kernel", machine.kernel},
          {"distribution", machine.distribution},
          {"cpu", machine.cpu_model},
          {"cpu_features", machine.cpu_features},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"gpus", machine.gpus},
          {"gpu_models", machine.gpu_models}};
}

// Reads until the end, the deadline or a full page, whichever comes first.
std::string read_until_deadline(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  const double deadline = steady_clock().now() + kGitTimeout;
  while (text.size() < buffer.size()) {
    const double left = deadline - steady_clock().now();
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000)) <= 0) break;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

// Standard output of a command, or nothing where it failed.
std::optional<std::string> output_of(std::vector<std::string> command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failure = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return std::nullopt;
  writer.reset();
  std::string text = read_until_deadline(reader.get());
  ::kill(pid, SIGKILL);  // harmless where it has ended
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ended_well || !text.empty() ? std::optional(text) : std::nullopt;
}

}  // namespace

GitState git_state(const fs::path& folder) {
  const std::string place = folder.empty() ? "." : folder.string();
  const auto commit = output_of({"git", "-C", place, "rev-parse", "HEAD"});
  if (!commit || commit->size() < 40) return {};
  const auto changes =
      output_of({"git", "-C", place, "status", "--porcelain", "--untracked-files=no"});
  return {commit->substr(0, 40), changes && !changes->empty() ? "modified" : "clean"};
}

Json manifest(const ManifestInput& input) {
  std::error_code failure;  // the folder may have been deleted meanwhile
  const std::string working_directory = fs::current_path(failure).string();
  Json document = {
      {"schema", "trainctl.manifest/1"},      {"version", input.version},
      {"started_at", input.started_at},       {"argv", input.argv},
      {"config", input.config_file.string()}, {"working_directory", working_directory},
      {"libraries", input.library_versions},  {"hardware", describe(input.machine)},
      {"environment", kept_environment()},    {"data_fingerprints", input.data_fingerprints}};
  document["split"] = input.split;
  document["num_threads"] = nullptr;
  if (input.threads.number > 0)
    document["num_threads"] = {{"value", input.threads.number},
                               {"why", input.threads.why},
                               {"contended", input.threads.contended}};
  document["thread_waiting"] =
      input.thread_waiting.empty() ? Json(nullptr) : Json(input.thread_waiting);
  document["num_workers"] = nullptr;
  if (const Workers& workers = input.workers; workers.prefetch_factor > 0)
    document["num_workers"] = {{"value", workers.number},
                               {"prefetch_factor", workers.prefetch_factor},
                               {"why", workers.why}};
  document["batch_size"] = nullptr;
  if (input.batch_size.size > 0)
    document["batch_size"] = {{"value", input.batch_size.size}, {"why", input.batch_size.why}};
  document["activation_checkpointing"] = nullptr;
  if (const Recomputes& recomputes = input.recomputes; !recomputes.why.empty())
    document["activation_checkpointing"] = {{"value", recomputes.blocks ? "blocks" : "off"},
                                            {"why", recomputes.why}};
  document["channels_last"] = nullptr;
  if (const Layout& layout = input.layout; !layout.why.empty())
    document["channels_last"] = {{"value", layout.channels_last}, {"why", layout.why}};
  document["allocator"] = input.allocator.empty() ? Json(nullptr) : Json(input.allocator);
  document["plugins"] = input.plugins;
  document["weights"] = input.weights;
  document["git"] = input.git.commit.empty()
                        ? Json(nullptr)
                        : Json{{"commit", input.git.commit}, {"state", input.git.status}};
  return document;
}

}  // namespace trainctl::study
