#include "base/error.hpp"
#include "study/nodes/node_plan.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

using namespace trainctl;
using namespace trainctl::study;
using Catch::Matchers::Contains;

namespace {

RendezvousInfo rendezvous_of(const LockHolder& coordinator) {
  return {"slurm-7.0.0", {"10.0.0.1", 12345}, launch::make_token(), coordinator};
}

/// Returns the holder of a process that has exited.
LockHolder exited_coordinator() {
  LockHolder coordinator = this_process();
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  coordinator.pid = pid;
  return coordinator;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return "accepted";
}

void put_rendezvous(const fs::path& path, const RendezvousInfo& rendezvous) {
  put_text(path, rendezvous_text(rendezvous));
  ::chmod(path.c_str(), 0600);
}

}  // namespace

TEST_CASE("rendezvous file: other nodes read the same data, other users cannot") {
  const TempFolder folder;
  const fs::path path = rendezvous_path(folder / "runs", "slurm-7.0.0");
  CHECK(path == folder / "runs/.rendezvous-slurm-7.0.0");
  CHECK_FALSE(read_rendezvous(path));
  const RendezvousInfo rendezvous = rendezvous_of(this_process());
  write_rendezvous(path, rendezvous);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const auto found = read_rendezvous(path);
  REQUIRE(found);
  CHECK(found->run_id == "slurm-7.0.0");
  CHECK(launch::to_text(found->endpoint) == "10.0.0.1:12345");
  CHECK(found->token == rendezvous.token);
  remove_rendezvous(path);
  CHECK(fs::is_empty(folder / "runs"));
}

TEST_CASE("rendezvous file: an id that is not a valid file name is replaced by a digest") {
  const std::string name = rendezvous_path("/out", "../../etc/passwd").filename().string();
  CHECK(name.starts_with(".rendezvous-.._.._etc_passwd-"));
  CHECK(rendezvous_path("/out", "a/b") != rendezvous_path("/out", "a_b"));
  CHECK(rendezvous_path("/out", std::string(500, 'x')).filename().string().size() < 140);
  CHECK(rendezvous_path("/out", std::string(500, 'x')) !=
        rendezvous_path("/out", std::string(501, 'x')));
}

TEST_CASE("rendezvous file: the file of an exited coordinator is ignored and replaced") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  put_rendezvous(path, rendezvous_of(exited_coordinator()));
  CHECK_FALSE(read_rendezvous(path));
  const RendezvousInfo rendezvous = rendezvous_of(this_process());
  write_rendezvous(path, rendezvous);
  CHECK(read_rendezvous(path)->token == rendezvous.token);
}

TEST_CASE(
    "rendezvous file: the file of another host is read, because its process cannot be checked") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  LockHolder coordinator = exited_coordinator();
  coordinator.host += "-not";
  put_rendezvous(path, rendezvous_of(coordinator));
  CHECK(read_rendezvous(path));
  write_rendezvous(path, rendezvous_of(this_process()));
  CHECK(read_rendezvous(path)->coordinator.host == this_process().host);
}

TEST_CASE(
    "rendezvous file: a live coordinator keeps its file, and another one with the same id fails") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  LockHolder coordinator = this_process();
  coordinator.pid = ::getppid();  // it is alive, and not this process
  coordinator.started = 0;
  put_rendezvous(path, rendezvous_of(coordinator));
  const std::string text = rendezvous_text(*read_rendezvous(path));
  CHECK_THAT(error_of([&] { write_rendezvous(path, rendezvous_of(this_process())); }),
             Contains("11 another run with this --rdzv-id") && Contains("--rdzv-id"));
  remove_rendezvous(path);
  CHECK(rendezvous_text(*read_rendezvous(path)) == text);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("rendezvous file: files that others can read and symbolic links are not used") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  put_rendezvous(path, rendezvous_of(this_process()));
  ::chmod(path.c_str(), 0640);
  CHECK_THAT(error_of([&] { read_rendezvous(path); }), Contains("accessible to others"));
  fs::remove(path);
  put_rendezvous(folder / "elsewhere", rendezvous_of(this_process()));
  fs::create_symlink(folder / "elsewhere", path);
  CHECK_THAT(error_of([&] { read_rendezvous(path); }), Contains("2 cannot read"));
}

TEST_CASE("rendezvous file: errors about invalid content name the file but not the token") {
  const RendezvousInfo rendezvous = rendezvous_of(this_process());
  const std::string valid = rendezvous_text(rendezvous);
  const std::string digits = launch::token_digits(*rendezvous.token);
  std::string cut = valid;
  cut.replace(cut.find(digits), 1, "x");
  for (const std::string& text : {std::string("{}"), std::string("[]"), std::string(),
                                  valid.substr(0, valid.size() / 2), cut}) {
    const std::string error = error_of([&] { parse_rendezvous(text, "the file"); });
    CHECK_THAT(error, Contains("2 ") && Contains("the file"));
    CHECK_THAT(error, !Contains(digits.substr(1)));
  }
}

TEST_CASE("rendezvous file: an incomplete file counts as missing") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  const std::string text = rendezvous_text(rendezvous_of(this_process()));
  put_text(path, text.substr(0, text.size() / 2));
  ::chmod(path.c_str(), 0600);
  CHECK_FALSE(read_rendezvous(path));
}
