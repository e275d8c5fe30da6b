#include "study/nodes/rendezvous_file.hpp"

#include "base/error.hpp"
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

Meeting meeting_of(const LockHolder& head) {
  return {"slurm-7.0.0", {"10.0.0.1", 12345}, launch::make_token(), head};
}

/// Returns the holder of a process that has exited.
LockHolder dead_head() {
  LockHolder head = this_process();
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  head.pid = pid;
  return head;
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return "accepted";
}

void plant(const fs::path& path, const Meeting& meeting) {
  put_text(path, meeting_text(meeting));
  ::chmod(path.c_str(), 0600);
}

}  // namespace

TEST_CASE("what the head writes is what others read, and nobody else may") {
  const TempFolder folder;
  const fs::path path = meeting_path(folder / "runs", "slurm-7.0.0");
  CHECK(path == folder / "runs/.rendezvous-slurm-7.0.0");
  CHECK_FALSE(read_meeting(path));
  const Meeting meeting = meeting_of(this_process());
  write_meeting(path, meeting);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const auto found = read_meeting(path);
  REQUIRE(found);
  CHECK(found->run_id == "slurm-7.0.0");
  CHECK(launch::to_text(found->endpoint) == "10.0.0.1:12345");
  CHECK(found->token == meeting.token);
  remove_meeting(path);
  CHECK(fs::is_empty(folder / "runs"));
}

TEST_CASE("ids that no file can be called by have a digest in its name") {
  const std::string name = meeting_path("/out", "../../etc/passwd").filename().string();
  CHECK(name.starts_with(".rendezvous-.._.._etc_passwd-"));
  CHECK(meeting_path("/out", "a/b") != meeting_path("/out", "a_b"));
  CHECK(meeting_path("/out", std::string(500, 'x')).filename().string().size() < 140);
  CHECK(meeting_path("/out", std::string(500, 'x')) != meeting_path("/out", std::string(501, 'x')));
}

TEST_CASE("a file that a dead head has left is not read, and its successor replaces it") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  plant(path, meeting_of(dead_head()));
  CHECK_FALSE(read_meeting(path));
  const Meeting meeting = meeting_of(this_process());
  write_meeting(path, meeting);
  CHECK(read_meeting(path)->token == meeting.token);
}

TEST_CASE("a head of another host is read, it cannot be told whether it lives") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  LockHolder head = dead_head();
  head.host += "-not";
  plant(path, meeting_of(head));
  CHECK(read_meeting(path));
  write_meeting(path, meeting_of(this_process()));
  CHECK(read_meeting(path)->head.host == this_process().host);
}

TEST_CASE("a living head keeps its file, and another with the same id is refused") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  LockHolder head = this_process();
  head.pid = ::getppid();  // alive, and not this process
  head.started = 0;
  plant(path, meeting_of(head));
  const std::string text = meeting_text(*read_meeting(path));
  CHECK_THAT(refusal([&] { write_meeting(path, meeting_of(this_process())); }),
             Contains("11 another run with this id") && Contains("--rdzv-id"));
  remove_meeting(path);
  CHECK(meeting_text(*read_meeting(path)) == text);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a file that others may read, and a link, are not used") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  plant(path, meeting_of(this_process()));
  ::chmod(path.c_str(), 0640);
  CHECK_THAT(refusal([&] { read_meeting(path); }), Contains("others may read"));
  fs::remove(path);
  plant(folder / "elsewhere", meeting_of(this_process()));
  fs::create_symlink(folder / "elsewhere", path);
  CHECK_THAT(refusal([&] { read_meeting(path); }), Contains("2 cannot read"));
}

TEST_CASE("what is no meeting is told by its place, and never by its token") {
  const Meeting meeting = meeting_of(this_process());
  const std::string sound = meeting_text(meeting);
  const std::string digits = launch::token_digits(*meeting.token);
  std::string cut = sound;
  cut.replace(cut.find(digits), 1, "x");
  for (const std::string& text : {std::string("{}"), std::string("[]"), std::string(),
                                  sound.substr(0, sound.size() / 2), cut}) {
    const std::string told = refusal([&] { parse_meeting(text, "the file"); });
    CHECK_THAT(told, Contains("2 ") && Contains("the file"));
    CHECK_THAT(told, !Contains(digits.substr(1)));
  }
}

TEST_CASE("a file that is half written is waited for") {
  const TempFolder folder;
  const fs::path path = folder / ".rendezvous-7";
  const std::string text = meeting_text(meeting_of(this_process()));
  put_text(path, text.substr(0, text.size() / 2));
  ::chmod(path.c_str(), 0600);
  CHECK_FALSE(read_meeting(path));
}
