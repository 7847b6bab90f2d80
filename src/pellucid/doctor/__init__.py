"""What is wrong with the data or the machine? A file a question, findings that say where and what to do.

Files are streamed twice, whatever their size; what is held is bounded: hashes, counts and a sample.
"""
