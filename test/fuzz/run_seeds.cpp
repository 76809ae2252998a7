// Runs a fuzz target over files and folders of files, so that the seeds are an ordinary test with any compiler.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) files.emplace_back(argv[i]);
    for (const auto& entry : fs::is_directory(argv[i]) ? fs::directory_iterator{argv[i]} : fs::directory_iterator{})
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::cerr << "no inputs" << std::endl;
    return 1;
  }
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>{in}, {}};
    std::cout << file.filename().string() << ": " << text.size() << " bytes" << std::endl;
    // Up to 256 prefixes of the file too: a cheap form of fuzzing.
    for (std::size_t size = 0; size <= text.size(); size += std::max<std::size_t>(1, text.size() / 256))
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), size);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
}
