"""What is wrong with data before an hour is lost on it: a file a question, findings that say where and what to do.

Files are streamed twice, whatever their size; what is held is bounded: hashes, counts and a sample.
"""
