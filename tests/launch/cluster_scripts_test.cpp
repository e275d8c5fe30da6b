#include "base/files.hpp"
#include "base/strings.hpp"
#include "launch/launchers/launcher_environment.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"

#include <map>
#include <regex>
#include <string>

// Tests the manifests of scripts/cluster with the environment that they and their operators set.
// The Slurm and torchrun scripts are run by tests/smoke.

using namespace trainctl;
using namespace trainctl::launch;

namespace {

using Environment = std::map<std::string, std::string>;

std::string text_of(const std::string& name) {
  return read_file(golden_folder() / "../../scripts/cluster" / name, 1 << 20, ReadFailure::config);
}

/// Returns the variables that the containers' "- {name: X, value: Y}" set.
Environment environment_of(const std::string& manifest) {
  static const std::regex kEntry(R"re(- \{name: ([A-Z_]+), value: "?([^"}]*)"?\})re");
  Environment found;
  for (std::sregex_iterator entry(manifest.begin(), manifest.end(), kEntry), end; entry != end;
       ++entry)
    found[(*entry)[1]] = (*entry)[2];
  return found;
}

/// Returns the first number after `key`.
int number_of(const std::string& manifest, const std::string& key) {
  const std::size_t at = manifest.find(key);
  REQUIRE(at != std::string::npos);
  return std::stoi(manifest.substr(at + key.size()));
}

std::optional<LauncherTask> place_in(const Environment& environment) {
  return find_launcher_task([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

bool holds(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("cluster scripts: the pods of the Indexed Job are the nodes of one run") {
  const std::string manifest = text_of("indexed-job.yaml");
  const int pods = number_of(manifest, "completions: ");
  CHECK(number_of(manifest, "parallelism: ") == pods);
  Environment environment = environment_of(manifest);
  CHECK(environment.size() == 3);
  environment["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
  for (int pod = 0; pod < pods; ++pod) {
    environment["JOB_COMPLETION_INDEX"] = std::to_string(pod);  // set by Kubernetes
    const auto task = place_in(environment);
    REQUIRE(task);
    CHECK(task->launcher == Launcher::kubernetes);
    CHECK(task->rank == pod);
    CHECK(task->world_size == pods);
    CHECK(task->whole_node);
    CHECK(task->master_port == number_of(manifest, "containerPort: "));
    CHECK(task->ignored.empty());
  }
}

TEST_CASE("cluster scripts: pod 0 of the Indexed Job is found by its name in the service") {
  const std::string manifest = text_of("indexed-job.yaml");
  const std::string address = environment_of(manifest)["MASTER_ADDR"];
  const auto names = split(address, '.');  // HOST.SUBDOMAIN, where HOST is JOB-INDEX
  REQUIRE(names.size() == 2);
  CHECK(holds(manifest, "subdomain: " + names[1]));
  CHECK(holds(manifest, "clusterIP: None"));
  CHECK(names[0].ends_with("-0"));
  const std::string job = names[0].substr(0, names[0].size() - 2);
  CHECK(holds(manifest, "selector: {job-name: " + job + "}"));
  CHECK(holds(manifest, "kind: Job\nmetadata:\n  name: " + job + "\n"));
}

TEST_CASE(
    "cluster scripts: the pods of the PyTorchJob are the nodes of one run with any operator") {
  const std::string manifest = text_of("pytorchjob.yaml");
  CHECK_FALSE(holds(manifest, "nprocPerNode: "));
  CHECK_FALSE(holds(manifest, "elasticPolicy:"));
  CHECK(environment_of(manifest).empty());  // the operator sets everything
  Environment environment{{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                          {"MASTER_ADDR", "trainctl-master-0"},
                          {"MASTER_PORT", std::to_string(number_of(manifest, "containerPort: "))},
                          {"WORLD_SIZE", "2"}};
  Environment newer = environment;
  newer.insert({{"PET_NPROC_PER_NODE", "1"}, {"PET_NNODES", "2"}});
  for (Environment pods : {environment, newer}) {
    for (int pod = 0; pod < 2; ++pod) {
      pods["RANK"] = std::to_string(pod);
      const auto task = place_in(pods);
      REQUIRE(task);
      CHECK(task->launcher == Launcher::kubernetes);
      CHECK(task->rank == pod);
      CHECK(task->world_size == 2);
      CHECK(task->master_port == 23456);
    }
  }
}

TEST_CASE("cluster scripts: manifests take the token from a secret and contain none") {
  for (const char* name : {"indexed-job.yaml", "pytorchjob.yaml"}) {
    const std::string manifest = text_of(name);
    CAPTURE(name);
    CHECK(holds(manifest, "TRAINCTL_RDZV_TOKEN"));
    CHECK(holds(manifest, "secretKeyRef: {name: trainctl-token, key: token}"));
    CHECK_FALSE(std::regex_search(manifest, std::regex("[0-9a-f]{64}")));
    CHECK(holds(manifest, "--resume, auto]"));
  }
}

TEST_CASE(
    "cluster scripts: the Slurm job is requeued only for 75, and its tasks are warned in time") {
  const std::string script = text_of("slurm.sbatch");
  CHECK(holds(script, "#SBATCH --signal=USR1@120\n"));
  CHECK(holds(script, "#SBATCH --requeue\n"));
  const std::size_t requeue = script.find("scontrol requeue \"$SLURM_JOB_ID\"");
  CHECK(script.find("  75)") < requeue);
  CHECK(requeue < script.find("  93)"));
  CHECK(script.find("scontrol requeue", requeue + 1) == std::string::npos);
}
