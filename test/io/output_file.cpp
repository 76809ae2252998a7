#include "trainyard/io/output_file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <ostream>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/input_text.hpp"

using namespace trainyard;
using test::read_text;
using test::TemporaryFolder;
using test::write_text;
namespace fs = std::filesystem;

namespace {

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator{folder}, fs::directory_iterator{}));
}

Finding refused_output(const fs::path& path) {
  return test::finding_of([&] {
    OutputFile file{path};
    file.stream() << "text";
    file.commit();
  });
}

}  // namespace

TEST_CASE("an output appears when it is committed, whole") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.json";
  {
    OutputFile file{path};
    file.stream() << "text";
    file.stream().flush();
    CHECK_FALSE(fs::exists(path));
    file.commit();
    CHECK(read_text(path) == "text");
  }
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("an output that is not committed leaves what was there") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.json";
  write_text(path, "before");
  {
    OutputFile file{path};
    file.stream() << "half";
  }
  CHECK(read_text(path) == "before");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("two outputs to one name do not mix: the last to commit stays") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out";
  OutputFile first{path}, second{path};
  first.stream() << "first";
  second.stream() << "second";
  second.commit();
  first.commit();
  CHECK(read_text(path) == "first");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("equal contents give equal compressed files") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i * 7919 % 10007) + "\n";
  for (const char* name : {"a.gz", "b.gz"}) {
    OutputFile file{folder.path() / name};
    file.stream() << text;
    file.commit();
  }
  CHECK(read_text(folder.path() / "a.gz") == read_text(folder.path() / "b.gz"));
  CHECK(read_text(folder.path() / "a.gz").size() < text.size() / 2);
  CHECK(read_input(folder.path() / "a.gz") == text);
}

TEST_CASE("an existing file keeps its permissions and a link its target") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "real", link = folder.path() / "link";
  write_text(path, "before");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", link);
  OutputFile file{link};
  file.stream() << "after";
  file.commit();
  CHECK(fs::is_symlink(link));
  CHECK(read_text(path) == "after");
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a device is written directly") {
  OutputFile file{"/dev/null"};
  file.stream() << "text";
  file.commit();
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("where nothing can be written there is a clear error") {
  const TemporaryFolder folder;
  CHECK(refused_output(folder.path()).code == "file");
  CHECK(refused_output(folder.path() / "no" / "out.json").code == "file");
  CHECK(refused_output(folder.path() / "no" / "out.json").help.find("folder") != std::string::npos);
  CHECK(refused_output("").code == "file");
  if (fs::exists("/dev/full")) CHECK(refused_output("/dev/full").message.find("No space") != std::string::npos);
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a folder that may not be written is a clear error") {
  if (geteuid() == 0) return test::report_skipped("root may write everywhere");
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(refused_output(folder.path() / "out.json").code == "file");
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST_CASE("of several outputs none appears before all are written") {
  if (!fs::exists("/dev/full")) return test::report_skipped("no /dev/full");
  const TemporaryFolder folder;
  const auto path = folder.path() / "out";
  write_text(path, "before");
  {
    OutputFile first{path}, second{"/dev/full"};
    first.stream() << "after";
    second.stream() << "text";
    first.finish();
    CHECK_THROWS_AS(second.finish(), InputError);
  }
  CHECK(read_text(path) == "before");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a disk that is full is named, though the contents are larger than any buffer") {
  if (!fs::exists("/dev/full")) return test::report_skipped("no /dev/full");
  OutputFile file{"/dev/full"};
  file.stream() << std::string(1'000'000, 'x');
  const Finding finding = test::finding_of([&] { file.commit(); });
  CHECK(finding.message == "cannot write '/dev/full': No space left on device");
  CHECK(finding.help.find("free some space") == 0);
}

TEST_CASE("a link to a file that is not there yet is followed") {
  const TemporaryFolder folder;
  fs::create_symlink("there", folder.path() / "second");
  fs::create_symlink("second", folder.path() / "link");
  CHECK(followed_links(folder.path() / "link") == folder.path() / "there");
  OutputFile file{folder.path() / "link"};
  file.stream() << "text";
  file.commit();
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(read_text(folder.path() / "there") == "text");
}

TEST_CASE("a name may be as long as names are, and one that is longer is refused as such") {
  const TemporaryFolder folder;
  const auto path = folder.path() / std::string(255, 'a');
  OutputFile file{path};
  file.stream() << "text";
  file.commit();
  CHECK(read_text(path) == "text");
  CHECK(refused_output(folder.path() / std::string(256, 'a')).help == "give a shorter name");
  fs::create_symlink("loop", folder.path() / "loop");
  CHECK(refused_output(folder.path() / "loop").help.find("these symbolic links") != std::string::npos);
}
