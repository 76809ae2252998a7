#include "trainyard/io/input_text.hpp"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

#include "support/refusal.hpp"
#include "support/support.hpp"

using namespace trainyard;
using test::contains;
using test::TemporaryFolder;
using test::write_text;

namespace {

std::string gzipped(const std::string& text) {
  z_stream zip{};
  deflateInit2(&zip, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&zip, text.size()), '\0');
  zip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  zip.avail_in = static_cast<uInt>(text.size());
  zip.next_out = reinterpret_cast<Bytef*>(out.data());
  zip.avail_out = static_cast<uInt>(out.size());
  deflate(&zip, Z_FINISH);
  out.resize(zip.total_out);
  deflateEnd(&zip);
  return out;
}

Finding refused(const std::filesystem::path& path, std::size_t limit = limits::kInput) {
  const Finding finding = test::finding_of([&] { read_input(path, limit); });
  CHECK(finding.code == "file");
  return finding;
}

}  // namespace

TEST_CASE("an input is its file's text, decompressed where it is gzip") {
  const TemporaryFolder folder;
  write_text(folder.path() / "plain.json", "text\n");
  write_text(folder.path() / "packed.json.gz", gzipped("text\n"));
  write_text(folder.path() / "two.json.gz", gzipped("one") + gzipped("two"));
  write_text(folder.path() / "unnamed", gzipped("text\n"));
  write_text(folder.path() / "empty", "");
  CHECK(read_input(folder.path() / "plain.json") == "text\n");
  CHECK(read_input(folder.path() / "packed.json.gz") == "text\n");
  CHECK(read_input(folder.path() / "two.json.gz") == "onetwo");
  CHECK(read_input(folder.path() / "unnamed") == "text\n");
  CHECK(read_input(folder.path() / "empty").empty());
}

TEST_CASE("a missing file says which one was probably meant") {
  const TemporaryFolder folder;
  write_text(folder.path() / "graph.json", "{}");
  const Finding finding = refused(folder.path() / "grpah.json");
  CHECK(contains(finding.message, "there is no file"));
  CHECK(contains(finding.help, "graph.json'?"));
  CHECK(contains(refused(folder.path() / "no" / "graph.json").help, "no folder"));
  CHECK(contains(refused("").message, "empty"));
  std::filesystem::create_symlink("gone", folder.path() / "link");
  CHECK(contains(refused(folder.path() / "link").help, "link to a file that is gone"));
}

TEST_CASE("a folder is no input") {
  const TemporaryFolder folder;
  CHECK(contains(refused(folder.path()).message, "is a folder"));
}

TEST_CASE("a file without permission is no input") {
  if (geteuid() == 0) return test::report_skipped("root may read everything");
  const TemporaryFolder folder;
  write_text(folder.path() / "secret", "x");
  std::filesystem::permissions(folder.path() / "secret", std::filesystem::perms::none);
  CHECK(contains(refused(folder.path() / "secret").help, "permissions"));
}

TEST_CASE("damaged gzip data are refused") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.gz";
  const std::string good = gzipped("some text that is long enough to be cut");
  write_text(path, good.substr(0, good.size() / 2));
  CHECK(contains(refused(path).message, "cut short"));
  write_text(path, good.substr(0, 3));
  CHECK(contains(refused(path).message, "cut short"));
  std::string bad = good;
  bad[good.size() / 2] = static_cast<char>(bad[good.size() / 2] ^ 0x55);
  write_text(path, bad);
  CHECK(contains(refused(path).message, "damaged"));
  bad = good;
  bad[good.size() - 6] = static_cast<char>(bad[good.size() - 6] ^ 1);  // a byte of the checksum
  write_text(path, bad);
  CHECK(contains(refused(path).message, "damaged"));
  write_text(path, good + "tail");
  CHECK(contains(refused(path).message, "after its gzip data"));
  write_text(path, "{}");
  CHECK(contains(refused(path).message, "not gzip data"));
}

TEST_CASE("an input beyond the limit is refused, however small it is packed") {
  const TemporaryFolder folder;
  write_text(folder.path() / "bomb.gz", gzipped(std::string(10'000'000, 'x')));
  write_text(folder.path() / "long", std::string(1001, 'x'));
  CHECK(contains(refused(folder.path() / "bomb.gz", 1'000'000).message, "more than 1000000 bytes"));
  CHECK(contains(refused(folder.path() / "long", 1000).message, "more than 1000 bytes"));
  CHECK(read_input(folder.path() / "long", 1001).size() == 1001);
}

TEST_CASE("a place in a text is a line and a column of characters") {
  const std::string text = "one\n\u00e9\u00e9x\r\n\nlast";
  const Location at = location_at("f", text, text.find('x'));
  CHECK(at.line == 2);
  CHECK(at.column == 3);
  CHECK(at.source_line == "\u00e9\u00e9x");
  CHECK(location_at("f", text, 0).column == 1);
  CHECK(location_at("f", text, text.size()).line == 4);
  CHECK(location_at("f", text, text.size()).column == 5);
  CHECK(location_at("f", text, 10'000).line == 4);
  CHECK(location_at("f", "", 0).line == 1);
  CHECK(location_at_line("f", text, 2, 3) == at);
  CHECK(location_at_line("f", text, 99, 99).line == 4);
}

TEST_CASE("of a long line there is an excerpt around the fault") {
  std::string text(1'000'000, 'a');
  text[500'000] = 'X';
  const Location at = location_at("f", text, 500'000);
  CHECK(at.column == 500'001);
  CHECK(at.source_line.size() < 200);
  CHECK(at.source_line[static_cast<std::size_t>(at.excerpt_column) - 1] == 'X');
  CHECK(at.source_line.substr(0, 3) == "...");
  CHECK(at.source_line.substr(at.source_line.size() - 3) == "...");
}
